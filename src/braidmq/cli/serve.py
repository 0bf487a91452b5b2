"""`braidmq serve`: a broker, from flags, environment and file."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from braidmq.cli.logs import configure_logs
from braidmq.config import SETTINGS, Config, flag_of, load_config, located, overlooked_variables
from braidmq.errors import BraidError, ConfigError
from braidmq.worker import Worker, worker_of


def _setting(name: str) -> Parameter:
    """The flag of a setting, spelt and described as its definition says."""
    setting = SETTINGS[name]
    return Parameter(
        name=flag_of(name),
        negative=(),
        metavar=setting.key.upper(),
        help=setting.description,
        show_default=lambda _: setting.shown_default,
    )


def serve(
    *,
    host: Annotated[str | None, _setting("listener.host")] = None,
    port: Annotated[str | None, _setting("listener.port")] = None,
    in_memory: Annotated[bool | None, _setting("store.in_memory")] = None,
    data_dir: Annotated[str | None, _setting("store.data_dir")] = None,
    durability: Annotated[str | None, _setting("store.durability")] = None,
    salvage: Annotated[bool | None, _setting("store.salvage")] = None,
    group_policy: Annotated[str | None, _setting("groups.policy")] = None,
    join: Annotated[list[str] | None, _setting("cluster.join")] = None,
    cluster_listen: Annotated[str | None, _setting("cluster.listen")] = None,
    node_name: Annotated[str | None, _setting("cluster.node_name")] = None,
    cluster_secret_file: Annotated[str | None, _setting("cluster.secret_file")] = None,
    workers: Annotated[str | None, _setting("workers.count")] = None,
    admin_port: Annotated[str | None, _setting("admin.port")] = None,
    admin_host: Annotated[str | None, _setting("admin.host")] = None,
    admin_token: Annotated[str | None, _setting("admin.token")] = None,
    log_level: Annotated[str | None, _setting("log.level")] = None,
    log_format: Annotated[str | None, _setting("log.format")] = None,
    limit: Annotated[
        list[str] | None,
        Parameter(negative=(), metavar="NAME=VALUE", help="Set a limit: inflight_max=20. Repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Parameter(name="--set", negative=(), metavar="TABLE.KEY=VALUE", help="Set any setting. Repeatable."),
    ] = None,
    config: Annotated[
        Path | None, Parameter(metavar="FILE.toml", help="A file of settings.", env_var="BRAIDMQ_CONFIG")
    ] = None,
) -> None:
    """Run a broker until it is told to stop (SIGTERM, SIGINT).

    It needs no configuration. Settings come from the file, then from BRAIDMQ_* variables, then from flags;
    docs/configuration.md lists them all.
    """
    given = {
        "listener.host": host,
        "listener.port": port,
        "store.in_memory": in_memory,
        "store.data_dir": data_dir,
        "store.durability": durability,
        "store.salvage": salvage,
        "groups.policy": group_policy,
        "cluster.join": join,
        "cluster.listen": cluster_listen,
        "cluster.node_name": node_name,
        "cluster.secret_file": cluster_secret_file,
        "workers.count": workers,
        "admin.port": admin_port,
        "admin.host": admin_host,
        "admin.token": admin_token,
        "log.level": log_level,
        "log.format": log_format,
    }
    overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    overrides |= _pairs(set_, "") | _pairs(limit, "limits.")

    worker = worker_of(os.environ)

    def read() -> Config:
        whole = load_config(config, os.environ, overrides)
        return whole if worker is None else worker.config_of(whole)

    found = read()
    configure_logs(found.log, worker.name if worker is not None else None)
    try:
        if worker is not None:
            run_worker(found, read, worker)
        elif found.workers.count > 1:
            run_workers(found)
        else:
            run_broker(found, read)
    except ConfigError as error:
        # The flags were well-formed; the machine says no, as for a port that is taken. It isn't wrong usage.
        raise BraidError(str(located(error, config))) from error


def _pairs(pairs: list[str] | None, table: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{flag_of(table + name)}: a value is missing; write NAME=VALUE")
        found[f"{table}{name}"] = value
    return found


def run_broker(config: Config, read_again: Callable[[], Config]) -> None:
    """Run a node, saying where it listens."""
    from braidmq import node  # here, so that --help and a wrong flag don't wait for the whole broker to load
    from braidmq.workers import claim_directory

    claim_directory(config.store.directory, 1)
    node.run(config, lambda addresses: _announce(addresses, config), read_again)


def run_worker(config: Config, read_again: Callable[[], Config], worker: Worker) -> None:
    """Run one of several nodes; their supervisor says where they listen."""
    from braidmq import node

    node.run(config, worker.tell_ready, read_again, worker)


def run_workers(config: Config) -> None:
    """Run several nodes that look like one, as processes of the same command."""
    from braidmq import workers

    command = [sys.executable, *sys.orig_argv[1:]]
    if not workers.run(config, command, lambda addresses: _announce(addresses, config)):
        raise SystemExit(1)  # the worker that could not start has said why


def _announce(addresses: list[str], config: Config) -> None:
    from braidmq.net.files import files_granted, shortage

    for address in addresses:
        print(f"listening on {address}", flush=True)
    files = shortage(files_granted(), -(-config.limits.connections_max // config.workers.count))
    for warning in (files, overlooked_variables(os.environ)):
        if warning:
            print(f"warning: {warning}", flush=True)
    if config.auth.allow_anonymous is None and config.auth.lets_strangers_in:
        print("no authentication is configured: everybody on this machine can connect", flush=True)
