"""Every bound of the broker, in one frozen value: the unit is the last word of the name.

Nothing a client sends may make the broker use memory or time that isn't bounded by a field below. The
defaults are meant to be safe on a small machine with unknown clients, and generous enough that an honest
client never meets them. The ranges are checked where values come in (`braidmq.config`); code that builds
`Limits` itself, such as a test, may go outside them on purpose.

The text beside each field says why the bound exists; docs/configuration.md is generated from it.
"""

from typing import Annotated, Final, Literal

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB

# What the MQTT standard itself can carry.
PACKET_BYTES_CEILING: Final = 268_435_455 + 5  # the largest remaining length, its four bytes, the type byte
STRING_BYTES_CEILING: Final = 65_535  # every string has a two-byte length
UINT16_CEILING: Final = 65_535
UINT32_CEILING: Final = 4_294_967_295  # as a session expiry: never


Overflow = Literal["drop_newest", "drop_oldest", "refuse"]


def _bound(least: int, most: int | None, why: str) -> msgspec.Meta:
    return msgspec.Meta(ge=least, le=most, description=why)


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # What one packet may hold.
    packet_bytes_max: Annotated[int, _bound(
        1 * KIB, PACKET_BYTES_CEILING,
        "The largest packet accepted, header included. A packet is kept whole in memory until its last byte "
        "is there, so this times the connections is what half-sent packets can cost. IoT payloads are "
        "small; 1 MiB leaves room for a picture or a firmware block. Told to MQTT 5 clients as Maximum "
        "Packet Size.",
    )] = 1 * MIB
    topic_bytes_max: Annotated[int, _bound(
        1, STRING_BYTES_CEILING,
        "The longest topic name or filter. Topics are keys of the route cache and of the alias tables, "
        "which would otherwise grow by 64 KiB an entry.",
    )] = 4 * KIB
    topic_levels_max: Annotated[int, _bound(
        1, STRING_BYTES_CEILING,
        "The most levels in a topic or filter. A filter costs one trie node per level, and a topic is "
        "matched level by level.",
    )] = 200
    properties_max: Annotated[int, _bound(
        0, UINT16_CEILING,
        "The most user properties in one packet that is no PUBLISH: each becomes an object. Those of a "
        "PUBLISH are passed on unread, so packet_bytes_max is bound enough.",
    )] = 128
    filters_max: Annotated[int, _bound(
        1, None,
        "The most topic filters in one SUBSCRIBE or UNSUBSCRIBE. Each becomes an object before the first is "
        "looked at; a client that wants more sends more packets.",
    )] = 4_096
    client_id_bytes_max: Annotated[int, _bound(
        23, STRING_BYTES_CEILING,
        "The longest client id. Sessions are kept under it, in memory and in every log line about the "
        "client. The standard obliges a server to accept 23 bytes.",
    )] = 1 * KIB

    # Getting in.
    connections_max: Annotated[int, _bound(
        1, None,
        "The most clients connected at a time; the next are told 0x89. At up to 8 KiB an idle connection the "
        "default is half a GiB. If the operating system grants fewer open files, with some kept back for "
        "the store, that many connections are accepted, and a line at the start says so.",
    )] = 65_536
    connecting_max: Annotated[int, _bound(
        1, None,
        "The most connections at a time whose CONNECT isn't answered yet, PROXY headers and TLS handshakes "
        "included. Whoever means it is through in some round trips; beyond this the oldest is closed, so "
        "that connections which only hold a place can't keep others out. This times connect_bytes_max is "
        "what half-sent CONNECTs can cost.",
    )] = 4_096
    connect_bytes_max: Annotated[int, _bound(
        64, PACKET_BYTES_CEILING,
        "The most bytes read from a connection before its CONNECT is complete: what a stranger can make the "
        "broker hold. Enough for the largest will payload with a long token beside it.",
    )] = 128 * KIB
    connect_timeout_s: Annotated[int, _bound(
        1, 3600,
        "How long a connection may take to complete its CONNECT. Connections that say nothing would "
        "otherwise fill connections_max for free.",
    )] = 10
    address_connects_per_s_max: Annotated[int, _bound(
        0, None,
        "How many connections a second one address (of IPv6: one network of 64 bits) may open, and how many "
        "at once after a rest; more are closed unheard. Guessing passwords and TLS handshakes cost time. "
        "Behind a proxy the address is the client's only with the PROXY protocol. 0 is no limit.",
    )] = 0
    address_failed_logins_per_s_max: Annotated[int, _bound(
        0, None,
        "How many logins a second of one address (of IPv6: one network of 64 bits) may fail by password, "
        "HTTP service or policy before its next ones have to wait. A guess costs 50 ms of a core: five a "
        "second are a quarter of one, and too few to find any password that isn't in a list. Logins that "
        "succeed aren't counted. Behind a proxy the address is the client's only with the PROXY protocol. "
        "0 is no limit.",
    )] = 5
    logins_waiting_max: Annotated[int, _bound(
        1, None,
        "How many clients wait to be authenticated, for each kind of work (passwords, the HTTP service, "
        "policies). More than can be judged within connect_timeout_s would wait in vain: beyond it the "
        "oldest of the address with most waiting is told to come again (0x89).",
    )] = 1_024
    keep_alive_s_max: Annotated[int, _bound(
        0, UINT16_CEILING,
        "The longest keep alive a client may ask for. A longer one, or none, is answered with this as Server "
        "Keep Alive; MQTT 3 has no words for that, and refuses such a client (return code 2). 0 is no cap.",
    )] = 0
    server_keep_alive_s: Annotated[int, _bound(
        0, UINT16_CEILING,
        "A keep alive imposed on every MQTT 5 client, whatever it asks for. 0 imposes none.",
    )] = 0

    # What one client may keep here.
    sessions_max: Annotated[int, _bound(
        1, None,
        "The most sessions, connected or not. A client that comes back under ever new ids would otherwise "
        "leave sessions behind without end. The admin API can delete those that nobody needs.",
    )] = 262_144
    sessions_per_user_max: Annotated[int, _bound(
        0, None,
        "The most sessions of one user; further ones are refused with 0x97. Without it one user can use up "
        "sessions_max. It is off because a fleet of devices often shares a user. 0 is no limit; anonymous "
        "clients have only sessions_max.",
    )] = 0
    session_expiry_s_max: Annotated[int, _bound(
        0, UINT32_CEILING,
        "The longest a session is kept after its client has gone; a longer wish is cut to this, and the "
        "client is told. After a restart it holds for the sessions that were kept, too. 4294967295 lets "
        "sessions live for ever.",
    )] = 30 * 24 * 3600
    subscriptions_per_client_max: Annotated[int, _bound(
        1, None,
        "The most subscriptions of one session; further ones are refused with 0x97.",
    )] = 10_000
    groups_per_client_max: Annotated[int, _bound(
        1, None,
        "The most shared groups of one session; further ones are refused with 0x97. Each keeps its own "
        "backlog, so one small message that matches all of them costs memory in each, and each is looked at "
        "when the client comes or goes.",
    )] = 256
    receive_maximum: Annotated[int, _bound(
        1, UINT16_CEILING,
        "How many QoS 1 and 2 messages a client may have sent on one connection without our acknowledgement. "
        "Large enough to keep a fast link busy for a store commit. MQTT 3 can't be told: such a client isn't "
        "read while as many answers wait for the store. A session's table of open QoS 2 packet ids is "
        "bounded by the 65,535 there are.",
    )] = 1_024
    inflight_max: Annotated[int, _bound(
        1, UINT16_CEILING,
        "How many QoS 1 and 2 messages are under way to one client at a time, if its own Receive Maximum is "
        "not lower. The rest waits in the session's queue.",
    )] = 1_024
    queue_messages_max: Annotated[int, _bound(
        1, None,
        "How many QoS 1 and 2 messages wait for one client, online or not; overflow says what happens with "
        "more of them.",
    )] = 10_000
    queue_bytes_max: Annotated[int, _bound(
        1 * KIB, None,
        "The same bound in bytes of topics, payloads and properties, with 200 more a message for keeping it: "
        "ten thousand pictures are not ten thousand readings.",
    )] = 16 * MIB
    peer_queue_bytes_max: Annotated[int, _bound(
        1 * MIB, None,
        "How much waits for another node of the cluster that can't be reached or is behind, counted like "
        "queue_bytes_max. On disk if the node has one: see durability. Beyond it QoS 1 and 2 that this node "
        "wants are refused with 0x97; if it is dead they are dropped for it and counted as peer_gone, so "
        "that the dead never stop the living.",
    )] = 1024 * MIB
    overflow: Annotated[Overflow, msgspec.Meta(description=(
        "What happens when a session's queue is full. drop_newest gives the message to everybody else, "
        "drop_oldest makes room by giving up what has waited longest (on disk, a page of up to 512 messages "
        "at a time); either is counted as queue_full, and the publisher is told success. refuse tells the "
        "publisher 0x97 (MQTT 3: ends its connection), and gives a QoS 2 message to nobody: then one client "
        "that is away stops its publishers. Access rules can say it by user or client. Shared groups have "
        "their own."
    ))] = "drop_newest"
    client_messages_per_s_max: Annotated[int, _bound(
        0, None,
        "How many messages a second one client may publish; whoever is faster is read more slowly, and "
        "nothing is lost. 0 is no limit, and costs nothing.",
    )] = 0
    client_bytes_per_s_max: Annotated[int, _bound(
        0, None,
        "The same for all bytes that a client sends.",
    )] = 0
    work_ms_max: Annotated[int, _bound(
        1, 1_000,
        "How long one client's input is worked on before the others have their turn, whatever it asks for. "
        "It is what a client that makes the most work it can may add to another's waiting.",
    )] = 5
    topic_alias_max: Annotated[int, _bound(
        0, UINT16_CEILING,
        "How many topic aliases a client may set on one connection. Each holds a topic, so this times "
        "topic_bytes_max is what a connection's table can cost.",
    )] = 64
    topic_alias_outbound_max: Annotated[int, _bound(
        0, UINT16_CEILING,
        "How many aliases the broker sets towards a client that allows them. 0 sends full topics always.",
    )] = 64

    # What all clients together may keep here.
    retained_messages_max: Annotated[int, _bound(
        0, None,
        "The most retained messages. Anybody who may publish may retain, and nothing else removes them. 0 "
        "turns retained messages off.",
    )] = 1_000_000
    retained_bytes_max: Annotated[int, _bound(
        0, None,
        "The same bound in bytes of topics and payloads.",
    )] = 256 * MIB
    tombstones_max: Annotated[int, _bound(
        0, None,
        "The most retained messages of which a node of a cluster remembers that they were deleted, at some "
        "hundred bytes each. Beyond it the oldest is forgotten: a node that was away meanwhile may bring its "
        "message back.",
    )] = 100_000
    wills_bytes_max: Annotated[int, _bound(
        0, None,
        "The most bytes of all clients' wills, with 200 more a will for keeping it. A will waits for as long "
        "as its client is connected, and longer if it is delayed; a CONNECT with one for which there is no "
        "room is refused with 0x97.",
    )] = 64 * MIB
    route_cache_max: Annotated[int, _bound(
        1, None,
        "How many topics keep their list of subscribers ready; fewer if they have more than 256 bytes on "
        "average. Beyond it a topic is matched again; it costs time, never a message.",
    )] = 65_536

    # Other nodes.
    peers_max: Annotated[int, _bound(
        1, 1_024,
        "The most other nodes of the cluster that are remembered, dead ones included; the next is refused. "
        "Each has a link with every other, and a queue.",
    )] = 256

    # How long input may be left to gather.
    gather_us_max: Annotated[int, _bound(
        0, 10_000,
        "How long a busy broker may let messages gather before it reads them, so that one system call serves "
        "several. It does so only where that brings several times as many messages at a time, and no fewer a "
        "second; a broker with little to do reads at once. 0 turns it off.",
    )] = 100

    # Subscribers that read more slowly than they are sent to.
    output_bytes_max: Annotated[int, _bound(
        4 * KIB, None,
        "How many bytes wait in memory for one connection to read them. Above it publishers to this "
        "connection are paused for slow_subscriber_patience_ms; if that doesn't help, QoS 0 to it is "
        "dropped and counted.",
    )] = 1 * MIB
    waiting_bytes_max: Annotated[int, _bound(
        1 * MIB, None,
        "How many bytes wait in memory for all clients together, in queues and in buffers. Beyond it each "
        "client may have 64 KiB in its output and in its queue, whatever output_bytes_max and "
        "queue_bytes_max say, until less waits: many slow readers, each within its own limit, would fill the "
        "memory. What waits on disk doesn't count.",
    )] = 256 * MIB
    slow_subscriber_patience_ms: Annotated[int, _bound(
        0, 60_000,
        "How long publishers are held back for a subscriber whose output is full. It smooths short stalls; "
        "a dead subscriber must not hold up the living for longer than this. Patience that was spent comes "
        "back at a tenth of the pace while the subscriber keeps up.",
    )] = 1_000
