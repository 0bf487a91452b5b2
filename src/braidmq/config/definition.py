"""The one definition of what a node is told, as frozen values that all sources share.

A TOML file spells a field `[table] key`, the environment `BRAIDMQ_TABLE_KEY`, and the command line as
`settings.flag_of` says; types, ranges and descriptions are read off the annotations, so a new field needs no
second place.
"""

from base64 import b64decode, b64encode
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from braidmq.config.cluster import ClusterConfig
from braidmq.config.groups import GroupsConfig
from braidmq.errors import ConfigError
from braidmq.limits import Limits
from braidmq.scram import METHOD, Credential

DEFAULT_DATA_DIR: Final = "braidmq-data"
TOKEN_CHARACTERS_MIN: Final = 16  # fewer could be found by trying

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
        description="Memory for messages that wait, of all sessions and shared groups together. Beyond it, "
        "those for absent clients wait on disk alone, until the client is back, and those in shared groups "
        "until the ones before them are taken. Without a data directory it has no effect.",
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
    trace_messages_per_s_max: Annotated[int, msgspec.Meta(
        ge=1,
        description="How many messages a second all traces together look at, whether they show them or not. "
        "While one looks on, no message takes the fast lane; beyond this it rests for a second and says how "
        "many messages it has not looked at. The default costs a busy broker a few percent of its speed.",
    )] = 20_000
    trace_events_per_s_max: Annotated[int, msgspec.Meta(
        ge=1,
        description="How many events a second all traces together show; more than people can read.",
    )] = 2_000

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


class WorkersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One broker of several processes (docs/operating.md)."""

    count: Annotated[int, msgspec.Meta(
        ge=1, le=64,
        description="How many processes share the work, each with a core of its own and its part of the "
        "clients. The limits of connections and sessions, and the memory for messages that wait, are divided "
        "among them. A data directory is made for one count. Not with [cluster] yet, and only with plain "
        "listeners: no TLS, WebSocket or PROXY protocol.",
    )] = 1


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything one node is told."""

    listeners: tuple[Listener, ...] = msgspec.field(default=(Listener(),), name="listener")
    limits: Limits = Limits()
    store: StoreConfig = StoreConfig()
    auth: AuthConfig = AuthConfig()
    acl: AclConfig = AclConfig()
    groups: GroupsConfig = GroupsConfig()
    cluster: ClusterConfig = ClusterConfig()
    workers: WorkersConfig = WorkersConfig()
    admin: AdminConfig = AdminConfig()
    log: LogConfig = LogConfig()
    observers: dict[str, dict[str, Any]] = {}  # [observers.NAME]: a plug-in, and what it is told
