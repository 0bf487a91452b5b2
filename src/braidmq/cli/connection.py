"""The flags that pub and sub share: where to connect, as whom, how securely; and what they mean to a client.

Names and letters are those of mosquitto_pub and mosquitto_sub. What is different: MQTT 5 is the default (-V).
"""

import os
import ssl
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from cyclopts import Parameter

from braidmq.cli.properties import CommandProperties, parse_properties
from braidmq.client import ScramAuthenticator
from braidmq.errors import ConfigError
from braidmq.limits import UINT32_CEILING
from braidmq.wire import V5, V31, V311, Will

PLAIN_PORT: Final = 1883
TLS_PORT: Final = 8883

VERSIONS: Final = {"5": V5, "50": V5, "311": V311, "31": V31}
TLS_VERSIONS: Final = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}


def flag(*names: str, text: str, group: str = "Connection", metavar: str | None = None) -> Parameter:
    """One flag with its help."""
    return Parameter(name=names, help=text, group=group, metavar=metavar, negative=(), show_default=False)


def _security(name: str, text: str, metavar: str | None = None) -> Parameter:
    return flag(name, text=text, group="TLS", metavar=metavar)


def _will(name: str, text: str, metavar: str | None = None) -> Parameter:
    return flag(name, text=text, group="Will", metavar=metavar)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ConnectionFlags:
    """What the user asked for, word for word."""

    host: Annotated[str, flag("-h", "--host", text="The broker's host (localhost).", metavar="HOST")] = (
        "localhost"
    )
    port: Annotated[
        int | None, flag("-p", "--port", text="Its port (1883; 8883 with TLS).", metavar="PORT")
    ] = None
    url: Annotated[
        str | None,
        flag(
            "-L", "--url", text="All at once: mqtt[s]://[user[:password]@]host[:port]/topic.", metavar="URL"
        ),
    ] = None
    client_id: Annotated[
        str, flag("-i", "--id", text="The client id (the broker assigns one).", metavar="ID")
    ] = ""
    id_prefix: Annotated[
        str | None,
        flag("-I", "--id-prefix", text="A client id of this and the process id.", metavar="PREFIX"),
    ] = None
    username: Annotated[str | None, flag("-u", "--username", text="The user name.", metavar="NAME")] = None
    password: Annotated[
        str | None,
        Parameter(
            name=("-P", "--pw"),
            env_var="BRAIDMQ_PASSWORD",
            help="The password; safer in the variable, where other users can't see it.",
            group="Connection",
            metavar="PASSWORD",
            allow_leading_hyphen=True,
        ),
    ] = None
    scram: Annotated[
        bool, flag("--scram", text="Log in by SCRAM-SHA-256: the password isn't sent (MQTT 5).")
    ] = False
    version: Annotated[str, flag("-V", "--protocol-version", text="5, 311 or 31 (5).", metavar="VERSION")] = (
        "5"
    )
    keep_alive_s: Annotated[
        int, flag("-k", "--keepalive", text="Keep alive in seconds (60).", metavar="S")
    ] = 60
    keep_session: Annotated[
        bool,
        flag("-c", "--disable-clean-session", text="Take up this client id's session, and leave it behind."),
    ] = False
    session_expiry: Annotated[
        int | None,
        Parameter(
            name=("-x", "--session-expiry-interval"),
            help="How long the broker keeps the session, in seconds; -1 is for ever (the default with -c).",
            group="Connection",
            metavar="S",
            allow_leading_hyphen=True,
        ),
    ] = None
    properties: Annotated[
        list[str] | None,
        Parameter(
            name=("-D", "--property"),
            help="An MQTT 5 property, such as -D connect user-property name value. Repeatable.",
            group="Connection",
            metavar="COMMAND IDENTIFIER [NAME] VALUE",
            consume_multiple=True,
            negative=(),
        ),
    ] = None
    debug: Annotated[bool, flag("-d", "--debug", text="Say on standard error what happens.")] = False
    quiet: Annotated[bool, flag("--quiet", text="Print no errors of the connection.")] = False

    will_topic: Annotated[str | None, _will("--will-topic", "Where the will is published.", "TOPIC")] = None
    will_payload: Annotated[str | None, _will("--will-payload", "What it says (nothing).", "TEXT")] = None
    will_qos: Annotated[int | None, _will("--will-qos", "Its quality of service (0).", "QOS")] = None
    will_retain: Annotated[bool, _will("--will-retain", "Whether it is retained.")] = False

    ca_file: Annotated[str | None, _security("--cafile", "Trust the authorities in this file.", "FILE")] = (
        None
    )
    ca_path: Annotated[
        str | None, _security("--capath", "Trust the authorities in this directory.", "DIR")
    ] = None
    certificate: Annotated[str | None, _security("--cert", "Our certificate.", "FILE")] = None
    key: Annotated[str | None, _security("--key", "Our certificate's key.", "FILE")] = None
    insecure: Annotated[bool, _security("--insecure", "Accept a certificate for another host name.")] = False
    ciphers: Annotated[str | None, _security("--ciphers", "OpenSSL's list of ciphers.", "LIST")] = None
    tls_version: Annotated[str | None, _security("--tls-version", "tlsv1.2 or tlsv1.3.", "VERSION")] = None
    tls_alpn: Annotated[str | None, _security("--tls-alpn", "The protocol to ask for.", "NAME")] = None
    tls_os: Annotated[bool, _security("--tls-use-os-certs", "Trust the system's authorities.")] = False


LOCAL_BROKER: Final = ConnectionFlags()


class Destination(NamedTuple):
    """Where to, resolved from -h, -p and -L."""

    host: str
    port: int
    username: str | None
    password: str | None
    topic: str | None
    tls: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def destination(flags: ConnectionFlags) -> Destination:
    """Where the flags lead."""
    if flags.url is None:
        tls = _wants_tls(flags) or flags.port == TLS_PORT
        port = flags.port or (TLS_PORT if tls else PLAIN_PORT)
        return Destination(flags.host, port, flags.username, flags.password, None, tls)
    url = urlsplit(flags.url)
    if url.scheme not in ("mqtt", "mqtts") or not url.hostname:
        raise ConfigError(f"-L {flags.url}: write it as mqtt[s]://[user[:password]@]host[:port]/topic")
    try:
        port = url.port or (TLS_PORT if url.scheme == "mqtts" else PLAIN_PORT)
    except ValueError as error:
        raise ConfigError(f"-L {flags.url}: {error}") from error
    return Destination(
        url.hostname,
        port,
        unquote(url.username) if url.username else flags.username,
        unquote(url.password) if url.password else flags.password,
        unquote(url.path[1:]) or None,
        url.scheme == "mqtts" or _wants_tls(flags),
    )


def _wants_tls(flags: ConnectionFlags) -> bool:
    return bool(flags.ca_file or flags.ca_path or flags.certificate or flags.tls_os)


def client_options(
    flags: ConnectionFlags, properties: CommandProperties, where: Destination
) -> dict[str, Any]:
    """The keywords for braidmq.client.Client."""
    version = _version(flags, properties)
    if flags.client_id and flags.id_prefix is not None:
        raise ConfigError("-i and -I exclude each other")
    client_id = flags.client_id if flags.id_prefix is None else f"{flags.id_prefix}{os.getpid()}"
    if flags.keep_session and not client_id:
        raise ConfigError("-c needs a client id, so that the session can be found again: add -i ID")
    given = properties.connect
    options: dict[str, Any] = {
        "client_id": client_id or ("" if version == V5 else f"braid-{os.urandom(6).hex()}"),
        "version": version,
        "clean_start": not flags.keep_session,
        "session_expiry_s": _session_expiry_s(flags, given.session_expiry_s),
        "keep_alive_s": flags.keep_alive_s,
        "will": _will_of(flags, properties),
        **_login(flags, where),
        "connect_properties": msgspec.structs.replace(
            given,
            session_expiry_s=None,
            receive_maximum=None,
            topic_alias_maximum=None,
            maximum_packet_size_bytes=None,
        ),
        "tls": tls_context(flags) if where.tls else False,
    }
    chosen = {
        "receive_maximum": given.receive_maximum,
        "topic_alias_maximum": given.topic_alias_maximum,
        "max_packet_bytes": given.maximum_packet_size_bytes,
    }
    return options | {name: value for name, value in chosen.items() if value is not None}


def _login(flags: ConnectionFlags, where: Destination) -> dict[str, Any]:
    if not flags.scram:
        return {"username": where.username, "password": where.password}
    if not where.username or not where.password:
        raise ConfigError("--scram needs a user name and a password: -u NAME -P PASSWORD")
    return {"authenticator": ScramAuthenticator(where.username, where.password)}


def command_properties(flags: ConnectionFlags) -> CommandProperties:
    """The properties given with -D."""
    return parse_properties(flags.properties or [])


def _version(flags: ConnectionFlags, properties: CommandProperties) -> int:
    word = flags.version.lower().removeprefix("mqttv").replace(".", "")
    version = VERSIONS.get(word)
    if version is None:
        raise ConfigError(f"-V {flags.version}: expected 5, 311 or 31")
    needs_5 = properties != CommandProperties() or flags.session_expiry is not None or flags.scram
    if version != V5 and needs_5:
        raise ConfigError(f"-V {flags.version}: -D, -x and --scram came with MQTT 5")
    return version


def _session_expiry_s(flags: ConnectionFlags, given: int | None) -> int:
    wanted = flags.session_expiry if flags.session_expiry is not None else given
    if wanted is None:
        return UINT32_CEILING if flags.keep_session else 0
    if not -1 <= wanted <= UINT32_CEILING:
        raise ConfigError(f"-x {wanted}: expected -1 to {UINT32_CEILING} seconds")
    return UINT32_CEILING if wanted == -1 else wanted


def _will_of(flags: ConnectionFlags, properties: CommandProperties) -> Will | None:
    if flags.will_topic is None:
        if flags.will_payload is not None or flags.will_qos is not None or flags.will_retain:
            raise ConfigError("a will needs --will-topic")
        return None
    qos = require_qos(flags.will_qos or 0, "--will-qos")
    payload = (flags.will_payload or "").encode()
    return Will(flags.will_topic, payload, qos, flags.will_retain, properties.will)


def require_qos(qos: int, name: str) -> int:
    """The quality of service, if it is one."""
    if qos not in (0, 1, 2):
        raise ConfigError(f"{name} {qos}: expected 0, 1 or 2")
    return qos


def tls_context(flags: ConnectionFlags) -> ssl.SSLContext:
    """What the TLS flags ask for."""
    if (flags.certificate is None) != (flags.key is None):
        raise ConfigError("--cert and --key come together")
    if flags.tls_version is not None and flags.tls_version not in TLS_VERSIONS:
        raise ConfigError(f"--tls-version {flags.tls_version}: expected tlsv1.2 or tlsv1.3")
    try:
        return _make_context(flags)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(
            filter(None, (flags.ca_file, flags.ca_path, flags.certificate, flags.key, flags.ciphers))
        )
        raise ConfigError(f"TLS: {error.strerror or error} ({files})") from error


def _make_context(flags: ConnectionFlags) -> ssl.SSLContext:
    own_authorities = flags.ca_file or flags.ca_path
    context = ssl.create_default_context(cafile=flags.ca_file, capath=flags.ca_path)
    if own_authorities and flags.tls_os:
        context.load_default_certs()
    context.check_hostname = not flags.insecure
    if flags.certificate and flags.key:
        context.load_cert_chain(flags.certificate, flags.key)
    if flags.ciphers:
        context.set_ciphers(flags.ciphers)
    if flags.tls_version:
        context.minimum_version = context.maximum_version = TLS_VERSIONS[flags.tls_version]
    if flags.tls_alpn:
        context.set_alpn_protocols([flags.tls_alpn])
    return context
