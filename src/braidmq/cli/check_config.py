"""`braidmq check-config FILE`: would a broker start with it, and with what settings?"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from braidmq.config import Config, load_config, located, overlooked_variables, without_secrets
from braidmq.errors import ConfigError
from braidmq.net.files import files_granted, shortage

FileArgument = Annotated[Path, Parameter(metavar="FILE.toml", help="The file to check.")]
JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print all settings, as JSON.")]
TomlFlag = Annotated[bool, Parameter(name="--toml", negative=(), help="Print all settings, as TOML.")]


def check_config(file: FileArgument, /, *, as_json: JsonFlag = False, as_toml: TomlFlag = False) -> int:
    """Check a configuration file as `serve` would read it, BRAIDMQ_* variables and named files included.

    Says what is wrong, in which file and line, and exits with 1; secrets are never printed.
    """
    try:
        config = load_config(file, os.environ)
        check_files(config)
    except ConfigError as error:
        print(f"braidmq: {located(error, file)}", file=sys.stderr)
        return 1
    files = shortage(files_granted(), config.limits.connections_max)
    for warning in (files, overlooked_variables(os.environ)):
        if warning:
            print(f"braidmq: warning: {warning}", file=sys.stderr)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(without_secrets(config))).decode())
    elif as_toml:
        print("\n".join(toml_lines(without_secrets(config))))
    else:
        print(f"{file}: good")
    return 0


def check_files(config: Config) -> None:
    """Read every file that is named, and look for every plug-in; ConfigError for one that is wrong."""
    from braidmq.broker.sharing.registry import refuse_doubtful
    from braidmq.net.gate import make_gate
    from braidmq.net.plugins import observer_makers, store_maker
    from braidmq.net.tls import link_contexts, server_context

    for listener in config.listeners:
        server_context(listener)
    if config.cluster.is_on:
        config.cluster.shared_secret()
        link_contexts(config.cluster)
    make_gate(config)
    refuse_doubtful(config.groups)
    observer_makers(config.observers)
    store_maker(config.store.engine)


def toml_lines(tables: dict[str, Any]) -> Iterator[str]:
    """A configuration as TOML; what isn't set is left out."""
    for name, content in tables.items():
        repeated = isinstance(content, list | tuple)
        for entry in content if repeated else [content]:
            yield f"[[{name}]]" if repeated else f"[{name}]"
            yield from (f"{key} = {_toml(value)}" for key, value in entry.items() if value is not None)
            yield ""


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers, true and false are written alike in both
