"""What a node is told about its cluster: the table [cluster] of its configuration (see `config`)."""

from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from braidmq.errors import ConfigError

SECRET_BYTES_MIN: Final = 16  # fewer could be found by trying
DEFAULT_LISTEN: Final = "127.0.0.1:0"

Routing = Literal["bloom", "full", "flood", "tree"]


class Place(NamedTuple):
    """A host and a port, as `host:port` spells them."""

    host: str
    port: int

    @property
    def text(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_place(text: str, *, port_min: int = 1) -> Place | None:
    """The place that `host:port` or `[host]:port` names; None if it names none."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not colon or not host or not port.isascii() or not port.isdigit() or len(port) > 5:
        return None
    return Place(host, int(port)) if port_min <= int(port) <= 65_535 else None


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several brokers that look like one (docs/operating.md). listen, join or discover turns it on."""

    name: Annotated[str, msgspec.Meta(
        min_length=1, max_length=64,
        description="The cluster's name. Nodes of another name or another secret aren't let in.",
    )] = "braidmq"
    secret_file: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A file with what all nodes of the cluster know and nobody else: 16 bytes at least, "
        "such as `openssl rand -hex 32` prints. It must not be readable by everybody.",
    )] | None = None
    secret: Annotated[str, msgspec.Meta(
        min_length=SECRET_BYTES_MIN,
        description="The same, in place of a file. Better in a variable than in a flag, which other users "
        "of the machine can read.",
    )] | None = None
    listen: Annotated[str, msgspec.Meta(
        min_length=1,
        description="Where other nodes connect, as `host:port`. Without it a free port of 127.0.0.1 is "
        "taken, which the line printed at the start says. Beyond this machine only with certificate, key "
        "and ca, or with plaintext.",
    )] | None = None
    join: Annotated[tuple[str, ...], msgspec.Meta(
        description="Where nodes of the cluster listen for each other, as `host:port`; one that is there is "
        "enough, and tells the others. A node that knows nobody waits for one of them before it listens for "
        "clients. If its own address is among them it doesn't wait for long: somebody has to be first.",
    )] = ()
    discover: Annotated[str, msgspec.Meta(
        pattern=r"^dns:[^:\s]+:[0-9]{1,5}$", examples=["dns:brokers.example:7883"],
        description="`dns:name:port`: all addresses of that name are joined. It is asked again every 30 "
        "seconds while somebody is missing.",
    )] | None = None
    node_name: Annotated[str, msgspec.Meta(
        pattern=r"^[A-Za-z0-9._-]{1,64}$", examples=["north-1"],
        description="What this node is called in status, logs and $SYS: letters, digits, `.`, `_` and `-`. "
        "Without it: the host name and the beginning of the node's id.",
    )] | None = None
    advertise: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The `host:port` at which the other nodes reach this one, if it isn't what listen says: "
        "behind an address translation, or if listen is 0.0.0.0.",
    )] | None = None
    client_address: Annotated[str, msgspec.Meta(
        min_length=1,
        description="The `host:port` at which clients reach this node. Clients that another node sends away "
        "are told it, as Server Reference. Without it: that of the first listener, if other machines can "
        "reach it.",
    )] | None = None
    certificate: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A PEM file with this node's certificate and its chain, for links with other nodes.",
    )] | None = None
    key: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A PEM file with the certificate's private key, without a pass phrase. It must not be "
        "readable by everybody.",
    )] | None = None
    ca: Annotated[str, msgspec.Meta(
        min_length=1,
        description="A PEM file with the authority that signs the nodes' certificates. Host names aren't "
        "compared: whoever has a certificate of it, and the secret, is a node.",
    )] | None = None
    plaintext: Annotated[bool, msgspec.Meta(
        description="Let links with other machines be unencrypted: whoever is on the way reads all "
        "messages. For networks that are encrypted anyway.",
    )] = False
    routing: Annotated[Routing, msgspec.Meta(
        description="How a node finds out which others want a message. bloom: they tell it in Bloom "
        "filters; full: in exact copies of all filters; flood and tree are for experiments: everything goes "
        "to all neighbours, or along a tree.",
    )] = "bloom"
    neighbours: Annotated[tuple[str, ...], msgspec.Meta(
        description="With flood: the names of the nodes that a message goes on to. Without it: all.",
    )] = ()
    suback: Annotated[Literal["propagated", "local"], msgspec.Meta(
        description="When a subscription is confirmed. propagated: when every linked node knows of it, so "
        "that nothing is missed which is published anywhere from then on. local: when this node does.",
    )] = "propagated"
    suback_wait_ms: Annotated[int, msgspec.Meta(
        ge=0, le=10_000,
        description="How long a confirmation waits for the other nodes at most; later ones are counted.",
    )] = 200
    ack: Annotated[Literal["local", "peers"], msgspec.Meta(
        description="When a QoS 1 or 2 publisher is answered. local: when this node has kept the message, "
        "for its own clients and for other nodes. peers: when all linked nodes that want it have, too.",
    )] = "local"
    failure_s: Annotated[int, msgspec.Meta(
        ge=1, le=300,
        description="After how many seconds of silence a node is dead to the others. A restart within it "
        "costs nothing; meanwhile what needs that node waits.",
    )] = 3
    keep_for_dead_s: Annotated[int, msgspec.Meta(
        ge=0, le=31_536_000,
        description="How long a dead node is remembered, and messages for it are kept. `braidmq cluster "
        "forget` ends it earlier.",
    )] = 86_400
    home_down: Annotated[Literal["fresh", "wait"], msgspec.Meta(
        description="What a client meets whose session is at a dead node. fresh: a new session; what the "
        "old one kept follows when its node is back. wait: it is refused (0x88) until then. "
        "The same at all nodes.",
    )] = "fresh"
    drain_per_s: Annotated[int, msgspec.Meta(
        ge=1, le=100_000,
        description="How many clients a second a draining node sends to others; they all come back at once.",
    )] = 500

    @property
    def is_on(self) -> bool:
        """Whether the node is part of a cluster at all."""
        return self.listen is not None or bool(self.join) or self.discover is not None

    @property
    def place(self) -> Place:
        """Where other nodes connect."""
        return _place("listen", self.listen or DEFAULT_LISTEN, port_min=0)

    @property
    def seeds(self) -> tuple[str, ...]:
        """What `join` names, spelt alike."""
        return tuple(_place("join", text).text for text in self.join)

    @property
    def discovery(self) -> Place | None:
        """The name and the port that `discover` asks for."""
        return _place("discover", self.discover.removeprefix("dns:")) if self.discover is not None else None

    @property
    def encrypts(self) -> bool:
        return self.certificate is not None

    def shared_secret(self) -> bytes:
        """What all nodes know. ConfigError: there is none, or it is none."""
        if self.secret is not None:
            return self.secret.encode()
        if self.secret_file is None:
            raise ConfigError(
                "[cluster] secret_file is missing: nodes prove to each other that they know the same; make "
                "it with `openssl rand -hex 32`, and name it with --cluster-secret-file on every node"
            )
        return _read_secret(Path(self.secret_file))


def _place(key: str, text: str, *, port_min: int = 1) -> Place:
    found = parse_place(text, port_min=port_min)
    if found is None:
        raise ConfigError(f"[cluster] {key}: {text!r} is no address; write host:port")
    return found


def _read_secret(path: Path) -> bytes:
    try:
        secret = path.read_bytes().strip()
        is_open = bool(path.stat().st_mode & 0o004)
    except OSError as error:
        raise ConfigError(f"[cluster] secret_file: {path}: {error.strerror}") from error
    if is_open:
        raise ConfigError(f"[cluster] secret_file: everybody on this machine can read {path}; chmod o-r it")
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"[cluster] secret_file: {path} has {len(secret)} bytes; {SECRET_BYTES_MIN} are needed at least, "
            "such as `openssl rand -hex 32` prints"
        )
    return secret
