"""From a file, variables and flags to one `Config`; later sources win: file, environment, flags.

Invariant: what `load_config` returns has no doubtful part. An unknown key, a wrong type, a value out of
range or two values that contradict each other raise ConfigError, which names the source, the table, the key,
the line where it can be found, and the nearest known name.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from braidmq.config.contradictions import refuse_contradictions
from braidmq.config.definition import Config
from braidmq.config.settings import (
    ENVIRONMENT_PREFIX,
    OPEN_TABLES,
    REPEATED_TABLES,
    SECRETS,
    SETTINGS,
    TABLES,
    flag_of,
)
from braidmq.config.toml import Keys, line_of, nearest, parse_toml, read_text
from braidmq.errors import ConfigError

# What Kubernetes tells of a service called braidmq, braidmq-cluster or braidmq-workers; we have no settings
# that end so.
OF_A_SERVICE: Final = re.compile(
    ENVIRONMENT_PREFIX + r"((CLUSTER|WORKERS)_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_\w+)?)"
)
# Of our program, and no settings: the file itself, what clients need, and what a worker is told. The last are
# for our own tests.
NO_SETTINGS: Final = re.compile(ENVIRONMENT_PREFIX + r"(CONFIG|PASSWORD|WORKER|(TEST|KILL|QUEUED)_\w+|ONLY)")


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


def overlooked_variables(env: Mapping[str, str]) -> str | None:
    """One line about variables that look like settings of ours and are none; None if there are none such."""
    known = {setting.variable: None for setting in SETTINGS.values() if setting.is_scalar}
    unknown = [
        variable
        for variable in env
        if variable.startswith(ENVIRONMENT_PREFIX)
        and variable not in known
        and not OF_A_SERVICE.fullmatch(variable)
        and not NO_SETTINGS.fullmatch(variable)
    ]
    if not unknown:
        return None
    hints = {variable: nearest(variable, list(known)).removeprefix("; ") for variable in unknown}
    named = [f"{variable} ({hint})" if hint else variable for variable, hint in hints.items()]
    return f"these variables set nothing: {', '.join(named)}"


def located(error: ConfigError, path: Path | None) -> ConfigError:
    """The error with the file and line of the setting that it begins with, if the file has that."""
    named = re.match(r"\[+([\w.-]+)\]+(?: (\w+))?", str(error))
    if path is None or named is None:
        return error
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return error
    table, key = named[1], named[2]
    line = line_of(text, (*_entry(text, table, str(error)), *((key,) if key else ())))
    return ConfigError(f"{path}{line}: {error}") if line else error


def _entry(text: str, table: str, message: str) -> Keys:
    """The table that a message is about; of a [[table]] the first entry whose address or text it names."""
    if table not in REPEATED_TABLES:
        return tuple(table.split("."))
    for index, entry in enumerate(tomllib.loads(text).get(table, [])):
        address = f"{entry.get('host', '127.0.0.1')}:{entry.get('port', 1883)}"
        texts = [value for key, value in entry.items() if key != "host" and isinstance(value, str)]
        if any(part in message for part in (address, *texts)):
            return table, index
    return table, 0


def _read_file(path: Path) -> dict[str, Any]:
    text = read_text(path)
    raw = parse_toml(text, str(path))
    return {table: _checked_table(table, content, path, text) for table, content in raw.items()}


def _checked_table(table: str, content: object, path: Path, text: str) -> object:
    if table not in TABLES:
        line = line_of(text, (table,))
        raise ConfigError(f"{path}{line}: unknown table [{table}]{nearest(table, TABLES)}")
    if table in OPEN_TABLES:
        return _checked_plugins(table, content, path, text)
    if table not in REPEATED_TABLES:
        return _checked_entries((table,), content, path, text)
    if not isinstance(content, list) or not content:
        line = line_of(text, (table,))
        raise ConfigError(f"{path}{line}: {table} is written [[{table}]], once for each {table}")
    return [_checked_entries((table, index), entry, path, text) for index, entry in enumerate(content)]


def _checked_plugins(table: str, content: object, path: Path, text: str) -> object:
    if isinstance(content, dict) and all(isinstance(options, dict) for options in content.values()):
        return content
    line = line_of(text, (table,))
    raise ConfigError(f"{path}{line}: {table} is written [{table}.NAME], once for each plug-in")


def _checked_entries(keys: Keys, content: object, path: Path, text: str) -> dict[str, object]:
    table = keys[0]
    if not isinstance(content, dict):
        raise ConfigError(f"{path}{line_of(text, keys)}: {table} must be a table, [{table}]")
    checked = {}
    for key, value in content.items():
        where = f"{path}{line_of(text, (*keys, key))}: [{table}] {key}"
        checked[key] = _checked_value(f"{table}.{key}", value, where, strict=True)
    return checked


def _checked_value(name: str, value: object, where: str, *, strict: bool) -> object:
    setting = SETTINGS.get(name)
    if setting is None:
        table = name.partition(".")[0]
        if table not in TABLES:
            raise ConfigError(f"{where}: unknown table {table!r}{nearest(table, TABLES)}")
        if table in OPEN_TABLES:
            raise ConfigError(f"{where}: plug-ins are configured in a file only, as [{table}.NAME]")
        known = [other.key for other in SETTINGS.values() if other.table == table]
        raise ConfigError(f"{where}: unknown key{nearest(name.partition('.')[2], known)}")
    if setting.is_list and isinstance(value, str) and not strict:
        value = value.replace(",", " ").split()
    try:
        checked: object = msgspec.convert(value, setting.type, strict=strict)
    except msgspec.ValidationError as error:
        shown = isinstance(value, str | int | float) and name not in SECRETS
        got = f", got {value!r}" if shown else ""
        raise ConfigError(f"{where}: expected {setting.expected}{got}") from error
    return checked


class _Source(NamedTuple):
    """A checked value on its way in, and what its giver calls it."""

    value: object
    called: str


def _from_environment(env: Mapping[str, str]) -> dict[str, _Source]:
    """The settings among the variables.

    Foreign variables under our prefix are let pass (see `overlooked_variables`); one that begins like a table
    of ours must be a key of it, unless it is what Kubernetes sets for a service called braidmq-cluster.
    """
    by_variable = {setting.variable: setting for setting in SETTINGS.values() if setting.is_scalar}
    found = {}
    for variable, value in env.items():
        if variable in by_variable:
            name = by_variable[variable].name
            found[name] = _Source(_checked_value(name, value, variable, strict=False), variable)
        elif OF_A_SERVICE.fullmatch(variable):
            continue
        elif variable.startswith(tuple(f"{ENVIRONMENT_PREFIX}{table.upper()}_" for table in TABLES)):
            raise ConfigError(f"{variable}: unknown setting{nearest(variable, list(by_variable))}")
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
