"""What no value alone can tell: settings that can't be meant together."""

from urllib.parse import urlsplit

import msgspec

from braidmq.config.cluster import ClusterConfig, parse_place
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
    _refuse_doubtful_cluster(config.cluster)
    if config.workers.count > 1:
        _refuse_what_workers_cant(config)
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
    taken.add((config.admin.host, config.admin.port or 0))
    if config.cluster.is_on and config.cluster.place.port and config.cluster.place in taken:
        raise ConfigError(f"[cluster] listen ({config.cluster.listen}) is taken by others; choose another")


def _refuse_what_workers_cant(config: Config) -> None:
    """Workers are a cluster by themselves, and pass on sockets, not what is decoded from them."""
    if config.cluster.is_on:
        raise ConfigError(
            f"[workers] count ({config.workers.count}) and [cluster] can't be had together yet: leave out "
            "--workers, and start more nodes with --join; or leave out [cluster]"
        )
    for listener in config.listeners:
        if listener.certificate or listener.protocol != "mqtt" or listener.proxy_protocol:
            raise ConfigError(
                f"[workers] count ({config.workers.count}) needs plain listeners, and {listener.host}:"
                f"{listener.port} has TLS, WebSocket or the PROXY protocol: leave out --workers, or let a "
                "proxy before the broker do that"
            )


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


def _refuse_doubtful_cluster(cluster: ClusterConfig) -> None:
    if not cluster.is_on:
        _refuse_lone_settings(cluster)
        return
    for key in ("advertise", "client_address"):
        text = getattr(cluster, key)
        if text is not None and parse_place(text) is None:
            raise ConfigError(f"[cluster] {key}: {text!r} is no address; write host:port")
    if cluster.secret is not None and cluster.secret_file is not None:
        raise ConfigError("[cluster] secret and secret_file exclude each other; leave one out")
    if cluster.secret is None and cluster.secret_file is None:
        cluster.shared_secret()  # says what to do
    files = (cluster.certificate, cluster.key, cluster.ca)
    if any(files) and not all(files):
        raise ConfigError("[cluster] certificate, key and ca belong together, and one of them is missing")
    if cluster.encrypts and cluster.plaintext:
        raise ConfigError("[cluster] plaintext and certificate exclude each other; leave one out")
    _refuse_open_links(cluster)


def _refuse_lone_settings(cluster: ClusterConfig) -> None:
    """A node that is told how to be in a cluster, and not which, is told so; a secret alone does no harm."""
    harmless = ("name", "secret", "secret_file")
    for field in msgspec.structs.fields(cluster):
        if field.name not in harmless and getattr(cluster, field.name) != field.default:
            raise ConfigError(
                f"[cluster] {field.name} is set, but there is no cluster: set listen where others connect, "
                "or join where they are"
            )


def _refuse_open_links(cluster: ClusterConfig) -> None:
    """Links with other machines are encrypted, or said not to be; and they need an address of this one."""
    discovered = (cluster.discovery,) if cluster.discovery is not None else ()
    others = [place for place in (*map(parse_place, cluster.seeds), *discovered) if place is not None]
    far = next((place for place in others if not is_loopback(place.host)), None)
    if not (cluster.encrypts or cluster.plaintext):
        where = cluster.place if not is_loopback(cluster.place.host) else far
        if where is not None:
            key = "listen" if where is not far else "join"
            raise ConfigError(
                f"[cluster] {key} ({where.text}) is beyond this machine; "
                "set certificate, key and ca, or plaintext = true if the network is encrypted anyway"
            )
    if far is not None and is_loopback(cluster.place.host):
        raise ConfigError(
            f"[cluster] listen is missing: {far.text} could not reach 127.0.0.1; set listen to "
            f'"0.0.0.0:{far.port}" or to an address of this machine'
        )
