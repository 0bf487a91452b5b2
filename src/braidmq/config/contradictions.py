"""What no value alone can tell: settings that can't be meant together."""

from urllib.parse import urlsplit

from braidmq.config.definition import AuthConfig, Config, Listener, is_loopback
from braidmq.errors import ConfigError


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
    _refuse_same_place(config)
    auth.credentials()
    if auth.http_url is not None:
        _refuse_doubtful_url(auth.http_url)


def _refuse_same_place(config: Config) -> None:
    """Two listeners can't be at the same place, unless the system chooses their ports."""
    taken: set[tuple[str, int]] = set()
    for place in ((listener.host, listener.port) for listener in config.listeners if listener.port):
        if place in taken:
            raise ConfigError(f"[[listener]] {place[0]}:{place[1]}: there are two of them; leave one out")
        taken.add(place)
    if config.admin.port and (config.admin.host, config.admin.port) in taken:
        raise ConfigError(f"[admin] port ({config.admin.port}) is that of a listener; choose another")


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
