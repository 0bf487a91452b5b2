"""What a node is told to do, as one frozen value, and the one definition that all its sources share.

The structs below are that definition. A TOML file spells a field `[table] key`, the environment
`BRAIDMQ_TABLE_KEY`, and the command line as `flag_of` says; types, ranges and descriptions are read off the
annotations, so a new field needs no second place. Later sources win: file, environment, flags.

Invariant: what `load_config` returns has no doubtful part. An unknown key, a wrong type, a value out of
range or two values that contradict each other raise ConfigError, which names the source, the table, the key,
the line where it can be found, and the nearest known name.
"""

import difflib
import re
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import inspect

from braidmq.errors import ConfigError
from braidmq.groups_config import GroupsConfig
from braidmq.limits import Limits
from braidmq.scram import METHOD, Credential

ENVIRONMENT_PREFIX: Final = "BRAIDMQ_"
DEFAULT_DATA_DIR: Final = "braidmq-data"
TOKEN_CHARACTERS_MIN: Final = 16  # fewer could be found by trying
HIDDEN: Final = "***"  # in place of a secret
SUGGESTIONS_MAX: Final = 12  # more names than this help nobody in an error message

# The salted, iterated form in which a SCRAM server keeps a password; the password can't be read from it.
SCRAM_VERIFIER_PATTERN: Final = r"^SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$"


def parse_verifier(verifier: str) -> Credential:
    """The credential that a verifier spells."""
    try:
        _, salting, keys = verifier.split("$")
        (iterations, salt), (stored, server) = salting.split(":"), keys.split(":")
        plain = [b64decode(part, validate=True) for part in (salt, stored, server)]
        return Credential(plain[0], int(iterations), plain[1], plain[2])
    except ValueError as error:
        raise ConfigError("[auth] scram_users: a verifier is damaged; `braidmq passwd` makes them") from error


def format_verifier(credential: Credential) -> str:
    """How a configuration file spells a credential."""
    salt, stored, server = (
        b64encode(part).decode() for part in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"{METHOD}${credential.iterations}:{salt}${stored}:{server}"


def is_loopback(host: str) -> bool:
    """Whether a host, as configured, is this machine and can't be reached from others."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Listener(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One address at which clients are let in."""

    host: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The address to listen on. 0.0.0.0 or :: lets other machines in; the default doesn't.",
    )] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(
        ge=0, le=65_535,
        description="The TCP port. 0 takes a free one; the line printed at the start says which.",
    )] = 1883
    protocol: Annotated[Literal["mqtt", "websocket"], msgspec.Meta(
        description="What is spoken: MQTT itself, or MQTT in WebSocket frames at the path /mqtt.",
    )] = "mqtt"
    origins: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The origins, with spaces between them, whose web pages may connect by WebSocket: "
        "`https://dashboard.example`; `*` is all. Without it only pages of the same host name may. Programs "
        "that are no browsers aren't concerned.",
    )] | None = None
    certificate: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A PEM file with the server's certificate and its chain. It turns TLS on.",
    )] | None = None
    key: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A PEM file with the certificate's private key, without a pass phrase. It must not be "
        "readable by everybody.",
    )] | None = None
    client_ca: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A PEM file with the authorities whose client certificates are accepted. With it every "
        "client has to have one, and comes in as the user whom its certificate names.",
    )] | None = None
    certificate_user: Annotated[Literal["common_name", "alternative_name"], msgspec.Meta(
        description="Where a client certificate names the user: in its subject's common name, or in its "
        "first alternative name (DNS, e-mail or URI).",
    )] = "common_name"
    proxy_protocol: Annotated[bool, msgspec.Meta(
        description="Every connection begins with a PROXY protocol header (version 1 or 2), which tells the "
        "client's address; one without is closed. Only for listeners that only a proxy can reach: whoever "
        "reaches it can claim any address.",
    )] = False

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where acknowledged state is kept."""

    in_memory: Annotated[bool, msgspec.Meta(
        description="Keep everything in memory only; it is gone when the broker stops.",
    )] = False
    data_dir: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The directory for what must survive a restart; made if absent. Without it and without "
        "in_memory it is braidmq-data in the working directory.",
    )] | None = None
    engine: Annotated[str, msgspec.Meta(
        min_length=1,
        description="What keeps it: log, the broker's own, or an installed plug-in by the name of its "
        "`braidmq.stores` entry point.",
    )] = "log"
    durability: Annotated[Literal["process", "fsync"], msgspec.Meta(
        description="What an acknowledged change survives. process: a crash or kill of the broker; the "
        "operating system has it. fsync: power loss too; acknowledgements wait until the disk has it.",
    )] = "process"
    queue_memory_bytes_max: Annotated[int, msgspec.Meta(
        ge=1_048_576,
        description="Memory for messages that wait, of all sessions together. Beyond it, those for absent "
        "clients wait on disk alone, until the client is back. Without a data directory it has no effect.",
    )] = 134_217_728
    salvage: Annotated[bool, msgspec.Meta(
        description="Start from a damaged data directory with what can be read of it; copies of the damaged "
        "files are kept. Meant for one start, not for good.",
    )] = False

    @property
    def directory(self) -> Path | None:
        """Where to keep what must survive; None in memory."""
        return None if self.in_memory else Path(self.data_dir or DEFAULT_DATA_DIR)


class AuthConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is let in."""

    allow_anonymous: Annotated[bool, msgspec.Meta(
        description="Let in clients that don't say who they are. If it isn't set, they are let in as long as "
        "no way to authenticate is configured, and from this machine only.",
    )] | None = None
    scram_users: Annotated[
        dict[str, Annotated[str, msgspec.Meta(pattern=SCRAM_VERIFIER_PATTERN)]],
        msgspec.Meta(
            description="User names and their SCRAM-SHA-256 verifiers, as `braidmq passwd NAME` prints them: "
            "`SCRAM-SHA-256$iterations:salt$stored-key:server-key`.",
        ),
    ] = {}

    policies: Annotated[str, msgspec.Meta(
        min_length=1,
        description="Installed plug-ins, by the names of their `braidmq.policies` entry points with spaces "
        "between them, that are asked first who may come in and what they may do.",
    )] | None = None
    password_file: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A file of users and hashes of their passwords, as `braidmq passwd FILE NAME` writes it.",
    )] | None = None
    jwt_key_file: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A file with the key that JSON Web Tokens are checked with: a public key in PEM, or for "
        "HS256 the shared secret. A client gives its token as its password.",
    )] | None = None
    jwt_algorithm: Annotated[Literal["HS256", "RS256", "ES256"], msgspec.Meta(
        description="The algorithm of the tokens; others aren't accepted.",
    )] = "RS256"
    jwt_audience: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The audience that a token has to be for (`aud`).",
    )] | None = None
    jwt_issuer: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The issuer that a token has to be from (`iss`).",
    )] | None = None
    jwt_user_claim: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The claim of a token that names the user.",
    )] = "sub"
    http_url: Annotated[str, msgspec.Meta(
        min_length=1,
        description="Where to ask by POST whether a client may come in. https, or http on this machine.",
    )] | None = None
    http_timeout_ms: Annotated[int, msgspec.Meta(
        ge=1, le=60_000,
        description="How long that service may take; without an answer the client isn't let in.",
    )] = 3_000

    def credentials(self) -> dict[str, Credential]:
        """What the broker needs to know of each user."""
        return {name: parse_verifier(verifier) for name, verifier in self.scram_users.items()}

    @property
    def knows_anybody(self) -> bool:
        """Whether there is a way for a client to say who it is."""
        ways = (self.scram_users, self.policies, self.password_file, self.jwt_key_file, self.http_url)
        return any(ways)

    @property
    def lets_strangers_in(self) -> bool:
        return not self.knows_anybody if self.allow_anonymous is None else self.allow_anonymous


class AdminConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP interface for operators."""

    port: Annotated[int, msgspec.Meta(
        ge=0, le=65_535,
        description="The TCP port of the admin API; without it there is none. 0 takes a free one; the line "
        "printed at the start says which.",
    )] | None = None
    host: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The address of the admin API. Other than loopback only with a token.",
    )] = "127.0.0.1"
    token: Annotated[str, msgspec.Meta(
        min_length=TOKEN_CHARACTERS_MIN,
        description="What callers must send as `Authorization: Bearer TOKEN`. Better in a file or a variable "
        "than in a flag, which other users of the machine can read.",
    )] | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can call."""
        return is_loopback(self.host)


class AclConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients may do, once they are in."""

    file: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A TOML file of rules (docs/security.md). With it everything is denied that no rule "
        "allows; without it everybody may do everything.",
    )] | None = None


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is written to standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], msgspec.Meta(
        description="The least severe event that is written.",
    )] = "info"
    format: Annotated[Literal["auto", "text", "json"], msgspec.Meta(
        description="Lines for people, or one JSON object a line; auto is text on a terminal, else JSON.",
    )] = "auto"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything one node is told."""

    listeners: tuple[Listener, ...] = msgspec.field(default=(Listener(),), name="listener")
    limits: Limits = Limits()
    store: StoreConfig = StoreConfig()
    auth: AuthConfig = AuthConfig()
    acl: AclConfig = AclConfig()
    groups: GroupsConfig = GroupsConfig()
    admin: AdminConfig = AdminConfig()
    log: LogConfig = LogConfig()
    observers: dict[str, dict[str, Any]] = {}  # [observers.NAME]: a plug-in, and what it is told


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
    def is_scalar(self) -> bool:
        """Whether one word can say it; the others are set in a file only."""
        return get_origin(_bare(self.type)) is not dict


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
SECRETS: Final = frozenset({"admin.token", "auth.http_url", "auth.scram_users"})  # never shown, nor in errors
REPEATED_TABLES: Final = frozenset({"listener"})


def flag_of(name: str) -> str:
    """How the command line spells a setting: listener.port is --port, limits.x is --limit x."""
    table, _, key = name.partition(".")
    word = key.replace("_", "-")
    match table:
        case "store":
            return f"--{word}"
        case "listener" if key in ("host", "port"):
            return f"--{word}"
        case "groups" if key == "policy":
            return "--group-policy"
        case "log" | "admin":
            return f"--{table}-{word}"
        case "limits":
            return f"--limit {key}"
    return f"--set {name}"


def load_config(
    path: Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Config:
    """The configuration from a TOML file, variables and flags (`{"limits.inflight_max": "20"}`)."""
    tables = _read_file(path) if path else {}
    _apply(tables, _from_environment(env or {}), path)
    _apply(tables, _from_overrides(overrides or {}), path)
    config = msgspec.convert(tables, Config)
    try:
        refuse_contradictions(config)
    except ConfigError as error:
        raise located(error, path) from error
    return config


def located(error: ConfigError, path: Path | None) -> ConfigError:
    """The error with the file and line of the setting that it begins with, if the file has that."""
    named = re.match(r"\[+([\w.-]+)\]+(?: (\w+))?", str(error))
    if path is None or named is None:
        return error
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return error
    table, key, index = named[1], named[2], _entry_of(text, named[1], str(error))
    line = _line_of(text, table, key, index) or _line_of(text, table, None, index)
    return ConfigError(f"{path}{line}: {error}") if line else error


def _entry_of(text: str, table: str, message: str) -> int:
    """Which entry of a [[table]] a message is about: the first of which it names the address or a text."""
    if table not in REPEATED_TABLES:
        return 0
    for index, entry in enumerate(tomllib.loads(text).get(table, [])):
        address = f"{entry.get('host', '127.0.0.1')}:{entry.get('port', 1883)}"
        texts = [value for key, value in entry.items() if key != "host" and isinstance(value, str)]
        if any(part in message for part in (address, *texts)):
            return index
    return 0


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


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = utf8_text(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    raw = parse_toml(text, str(path))
    return {table: _checked_table(table, content, path, text) for table, content in raw.items()}


def utf8_text(data: bytes, path: str) -> str:
    """The text of a file. ConfigError names the line where it stops to be one."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text (byte {error.start} of the file)") from error


def parse_toml(text: str, path: str) -> dict[str, Any]:
    """What a TOML file holds. ConfigError names the line that is wrong."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1  # else it says: at the end of the document
        raise ConfigError(f"{path}:{line}: not valid TOML: {error}") from error


def _checked_table(table: str, content: object, path: Path, text: str) -> object:
    if table not in TABLES:
        line = _line_of(text, table, None, 0)
        raise ConfigError(f"{path}{line}: unknown table [{table}]{_nearest(table, TABLES)}")
    if table in OPEN_TABLES:
        return _checked_plugins(table, content, path, text)
    if table not in REPEATED_TABLES:
        return _checked_entries(table, content, path, text, 0)
    if not isinstance(content, list) or not content:
        line = _line_of(text, table, None, 0)
        raise ConfigError(f"{path}{line}: {table} is written [[{table}]], once for each {table}")
    return [_checked_entries(table, entry, path, text, index) for index, entry in enumerate(content)]


def _checked_plugins(table: str, content: object, path: Path, text: str) -> object:
    if isinstance(content, dict) and all(isinstance(options, dict) for options in content.values()):
        return content
    line = _line_of(text, table, None, 0)
    raise ConfigError(f"{path}{line}: {table} is written [{table}.NAME], once for each plug-in")


def _checked_entries(table: str, content: object, path: Path, text: str, index: int) -> dict[str, object]:
    if not isinstance(content, dict):
        raise ConfigError(f"{path}{_line_of(text, table, None, index)}: {table} must be a table, [{table}]")
    checked = {}
    for key, value in content.items():
        where = f"{path}{_line_of(text, table, key, index)}: [{table}] {key}"
        checked[key] = _checked_value(f"{table}.{key}", value, where, strict=True)
    return checked


def _checked_value(name: str, value: object, where: str, *, strict: bool) -> object:
    setting = SETTINGS.get(name)
    if setting is None:
        table = name.partition(".")[0]
        if table not in TABLES:
            raise ConfigError(f"{where}: unknown table {table!r}{_nearest(table, TABLES)}")
        if table in OPEN_TABLES:
            raise ConfigError(f"{where}: plug-ins are configured in a file only, as [{table}.NAME]")
        known = [other.key for other in SETTINGS.values() if other.table == table]
        raise ConfigError(f"{where}: unknown key{_nearest(name.partition('.')[2], known)}")
    try:
        checked: object = msgspec.convert(value, setting.type, strict=strict)
    except msgspec.ValidationError as error:
        shown = isinstance(value, str | int | float) and name not in SECRETS
        got = f", got {value!r}" if shown else ""
        raise ConfigError(f"{where}: expected {setting.expected}{got}") from error
    return checked


def _nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(known)}" if len(known) <= SUGGESTIONS_MAX else ""


def _line_of(text: str, table: str, key: str | None, index: int) -> str:
    """`:line` of a key, or of its table's header when `key` is None; empty when it isn't found.

    tomllib keeps no positions. This looks at line beginnings only, so that a key inside a multi-line string
    can mislead it by some lines; the table and key in the message are right in any case.
    """
    current, seen = "", -1
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            current = stripped.split("#")[0].strip("[] \t\"'")
            seen += current == table
            if (key is None and current == table and seen == index) or current == f"{table}.{key}":
                return f":{number}"
            continue
        written = stripped.partition("=")[0].replace('"', "").replace("'", "").replace(" ", "")
        full = f"{current}.{written}" if current else written
        if key is None and full.split(".")[0] == table and not current:
            return f":{number}"
        if full == f"{table}.{key}" and max(seen, 0) == index:
            return f":{number}"
    return ""


class _Source(NamedTuple):
    """A checked value on its way in, and what its giver calls it."""

    value: object
    called: str


def _from_environment(env: Mapping[str, str]) -> dict[str, _Source]:
    """The settings among the variables.

    Foreign variables under our prefix are let pass, because Kubernetes sets such (BRAIDMQ_SERVICE_HOST, for
    a service of that name); one that begins like a table of ours must be a key of it.
    """
    by_variable = {setting.variable: setting for setting in SETTINGS.values() if setting.is_scalar}
    found = {}
    for variable, value in env.items():
        if variable in by_variable:
            name = by_variable[variable].name
            found[name] = _Source(_checked_value(name, value, variable, strict=False), variable)
        elif variable.startswith(tuple(f"{ENVIRONMENT_PREFIX}{table.upper()}_" for table in TABLES)):
            raise ConfigError(f"{variable}: unknown setting{_nearest(variable, list(by_variable))}")
    return found


def _from_overrides(overrides: Mapping[str, object]) -> dict[str, _Source]:
    return {
        name: _Source(_checked_value(name, value, flag_of(name), strict=False), flag_of(name))
        for name, value in overrides.items()
    }


def _apply(tables: dict[str, Any], sources: Mapping[str, _Source], path: Path | None) -> None:
    for name, source in sources.items():
        table, key = name.split(".")
        if table not in REPEATED_TABLES:
            tables.setdefault(table, {})[key] = source.value
            continue
        entries = tables.setdefault(table, [{}])
        if len(entries) > 1:
            raise ConfigError(
                f"{source.called}: which listener is meant? {path} has {len(entries)}; change it there"
            )
        entries[0][key] = source.value


def refuse_contradictions(config: Config) -> None:
    """Raise ConfigError if two values, each good by itself, can't be meant together."""
    limits, store, auth, admin = config.limits, config.store, config.auth, config.admin
    if limits.output_bytes_max < limits.packet_bytes_max:
        raise ConfigError(
            f"[limits] output_bytes_max ({limits.output_bytes_max}) is below packet_bytes_max "
            f"({limits.packet_bytes_max}): such a packet could never be sent on"
        )
    if limits.queue_bytes_max < limits.packet_bytes_max:
        raise ConfigError(
            f"[limits] queue_bytes_max ({limits.queue_bytes_max}) is below packet_bytes_max "
            f"({limits.packet_bytes_max}): such a message could never be queued"
        )
    if 0 < limits.keep_alive_s_max < limits.server_keep_alive_s:
        raise ConfigError("[limits] server_keep_alive_s is above keep_alive_s_max")
    if store.in_memory and store.data_dir is not None:
        raise ConfigError("[store] in_memory and data_dir exclude each other")
    if store.in_memory and store.engine != "log":
        raise ConfigError("[store] in_memory and engine exclude each other")
    if admin.port is not None and admin.token is None and not admin.is_loopback:
        raise ConfigError(f"[admin] host ({admin.host}) lets other machines in: a token is needed for that")
    for listener in config.listeners:
        _refuse_doubtful_listener(listener, auth)
    auth.credentials()
    if auth.http_url is not None:
        _refuse_doubtful_url(auth.http_url)


def _refuse_doubtful_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError("[auth] http_url: this is no URL") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("[auth] http_url: expected https://host/path")
    if parts.username is not None:
        raise ConfigError("[auth] http_url: a user name or a password in it would not be sent; leave it out")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError("[auth] http_url: passwords would cross the network unencrypted; use https")


def _refuse_doubtful_listener(listener: Listener, auth: AuthConfig) -> None:
    where = f"[[listener]] {listener.host}:{listener.port}"
    if (listener.certificate is None) != (listener.key is None):
        raise ConfigError(f"{where}: certificate and key belong together, and one of them is missing")
    if listener.client_ca is not None and listener.certificate is None:
        raise ConfigError(f"{where}: client_ca needs TLS: a certificate and a key of the server")
    if listener.origins is not None and listener.protocol != "websocket":
        raise ConfigError(f'{where}: origins are for web pages, and this is no protocol = "websocket"')
    if listener.client_ca is not None or auth.knows_anybody:
        return
    if auth.allow_anonymous is False:
        raise ConfigError("[auth] allow_anonymous is off and nobody else is named: no client could connect")
    if auth.allow_anonymous is None and not listener.is_local:
        raise ConfigError(
            f"{where}: other machines could connect, and no authentication is configured; name users in "
            "[auth], or let everybody in with --set auth.allow_anonymous=true, or listen on 127.0.0.1"
        )
