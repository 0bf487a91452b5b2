"""The settings one by one, read off the definition: their names in each source, and what a good value is."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import msgspec
from msgspec import inspect

from braidmq.config.definition import Config

ENVIRONMENT_PREFIX: Final = "BRAIDMQ_"
HIDDEN: Final = "***"  # in place of a secret


class Setting(NamedTuple):
    """One leaf of the definition: a value that a file, a variable or a flag can set."""

    table: str
    key: str
    type: Any
    default: Any

    @property
    def name(self) -> str:
        return f"{self.table}.{self.key}"

    @property
    def variable(self) -> str:
        return f"{ENVIRONMENT_PREFIX}{self.table}_{self.key}".upper()

    @property
    def description(self) -> str:
        return next(meta.description or "" for meta in _metas(self.type))

    @property
    def expected(self) -> str:
        """What a good value is, in words."""
        return _in_words(inspect.type_info(self.type))

    @property
    def shown_default(self) -> str:
        """Its default, as people are told it."""
        return "none" if self.default in (None, ()) else str(self.default).lower()

    @property
    def is_scalar(self) -> bool:
        """Whether one word can say it; the others are set in a file only."""
        return get_origin(_bare(self.type)) is not dict

    @property
    def is_list(self) -> bool:
        """Whether it has several values; a variable has spaces or commas between them."""
        return get_origin(_bare(self.type)) is tuple


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _metas(annotation: Any) -> Iterator[msgspec.Meta]:
    """The outermost constraints of an annotation, also behind `| None`."""
    if get_origin(annotation) is Annotated:
        yield from (part for part in get_args(annotation)[1:] if isinstance(part, msgspec.Meta))
    else:
        for part in get_args(annotation):
            yield from _metas(part)


def _in_words(type_: inspect.Type) -> str:
    match type_:
        case inspect.Metadata(type=inspect.StrType(), extra_json_schema={"examples": [example, *_]}):
            return f"a text such as {example}"
        case inspect.VarTupleType():
            return "a list of texts"
        case inspect.Metadata(type=inner):
            return _in_words(inner)
        case inspect.UnionType(types=types):
            return " or ".join(_in_words(part) for part in types if not isinstance(part, inspect.NoneType))
        case inspect.IntType(ge=least, le=None):
            return f"a whole number of at least {least}"
        case inspect.IntType(ge=least, le=most):
            return f"a whole number from {least} to {most}"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(map(str, values))
        case inspect.BoolType():
            return "true or false"
        case inspect.DictType(value_type=inspect.AnyType()):
            return "a table"
        case inspect.DictType(value_type=value):
            return f"a table whose values are each {_in_words(value)}"
        case inspect.StructType(fields=fields):
            return f"a table of {', '.join(field.encode_name for field in fields)}"
        case inspect.StrType(pattern=None, min_length=int(least)) if least > 1:
            return f"a text of at least {least} characters"
        case inspect.StrType(pattern=None):
            return "a text that isn't empty"
        case _:
            return "a verifier as `braidmq passwd` prints it"


def _struct_of(annotation: Any) -> type[msgspec.Struct]:
    """The struct of a table, whether it is written [table] or, as a tuple of it, [[table]]."""
    struct: type[msgspec.Struct] = get_args(annotation)[0] if get_origin(annotation) is tuple else annotation
    return struct


def settings() -> Iterator[Setting]:
    """Every setting there is, in the order of the definition."""
    for table in msgspec.structs.fields(Config):
        if table.encode_name in OPEN_TABLES:
            continue
        for field in msgspec.structs.fields(_struct_of(table.type)):
            has_default = field.default is not msgspec.NODEFAULT
            default = field.default if has_default else field.default_factory()
            yield Setting(table.encode_name, field.encode_name, field.type, default)


OPEN_TABLES: Final = frozenset({"observers"})  # what is in them is for plug-ins to judge
SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in settings()}
TABLES: Final = tuple(field.encode_name for field in msgspec.structs.fields(Config))
SECRETS: Final = frozenset(  # never shown, nor in errors
    {"admin.token", "auth.http_url", "auth.scram_users", "cluster.secret"}
)
REPEATED_TABLES: Final = frozenset({"listener"})


# The settings that `serve` has a flag of its own for.
OWN_FLAGS: Final = {
    "listener.host": "--host",
    "listener.port": "--port",
    "store.in_memory": "--in-memory",
    "store.data_dir": "--data-dir",
    "store.durability": "--durability",
    "store.salvage": "--salvage",
    "groups.policy": "--group-policy",
    "cluster.join": "--join",
    "cluster.listen": "--cluster-listen",
    "cluster.node_name": "--node-name",
    "cluster.secret_file": "--cluster-secret-file",
    "workers.count": "--workers",
    "admin.port": "--admin-port",
    "admin.host": "--admin-host",
    "admin.token": "--admin-token",
    "log.level": "--log-level",
    "log.format": "--log-format",
}


def flag_of(name: str) -> str:
    """How the command line spells a setting: listener.port is --port, limits.x is --limit x."""
    if name in OWN_FLAGS:
        return OWN_FLAGS[name]
    table, _, key = name.partition(".")
    return f"--limit {key}" if table == "limits" else f"--set {name}"


def without_secrets(config: Config) -> dict[str, Any]:
    """The configuration as plain values, fit to be shown: secrets that are set are replaced by stars."""
    shown: dict[str, Any] = msgspec.to_builtins(config)
    for name in SECRETS:
        table, _, key = name.partition(".")
        value = shown[table][key]
        if isinstance(value, dict):
            shown[table][key] = dict.fromkeys(value, HIDDEN)
        elif value is not None:
            shown[table][key] = HIDDEN
    for name, options in config.observers.items():  # which of them are secrets only the plug-in knows
        shown["observers"][name] = dict.fromkeys(options, HIDDEN)
    return shown
