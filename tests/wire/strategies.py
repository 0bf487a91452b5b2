"""Hypothesis strategies for every packet in every version."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from braidmq.wire import (
    NO_PROPERTIES,
    V5,
    V31,
    V311,
    WILL_OWNER,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PacketType,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from braidmq.wire.properties import PROPERTY_TABLE
from braidmq.wire.reasons import ALLOWED_REASONS

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
names = text.filter(bool)
topics = names.map(lambda name: name.replace("+", "p").replace("#", "h"))
blobs = st.binary(max_size=40)
u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFF_FFFF)
packet_ids = st.integers(1, 0xFFFF)
qos = st.integers(0, 2)
versions = st.sampled_from((V31, V311, V5))

_BITS = ("payload_format", "maximum_qos")
_NOT_ZERO = {"receive_maximum": 0xFFFF, "topic_alias": 0xFFFF, "maximum_packet_size_bytes": 0xFFFF_FFFF}
_U16 = ("server_keep_alive_s", "topic_alias_maximum")
_U32 = ("message_expiry_s", "session_expiry_s", "will_delay_s")
_TEXT = (
    "content_type", "assigned_client_id", "authentication_method", "response_information", "server_reference",
    "reason_string",
)  # fmt: skip
_BOOLEANS = (
    "request_problem_information", "request_response_information", "retain_available",
    "wildcard_subscription_available", "subscription_identifiers_available", "shared_subscription_available",
)  # fmt: skip

VALUES: dict[str, st.SearchStrategy[object]] = {
    **dict.fromkeys(_BITS, st.integers(0, 1)),
    **{name: st.integers(1, most) for name, most in _NOT_ZERO.items()},
    **dict.fromkeys(_U16, u16),
    **dict.fromkeys(_U32, u32),
    **dict.fromkeys(_TEXT, text),
    **dict.fromkeys(_BOOLEANS, st.booleans()),
    "response_topic": topics,
    "correlation_data": blobs,
    "authentication_data": blobs,
    "user_properties": st.lists(st.tuples(text, text), max_size=4).map(tuple),
}


@cache
def properties(owner: int) -> st.SearchStrategy[Properties]:
    """Any set of properties that this packet may carry."""
    values = {**VALUES, "subscription_identifiers": _identifiers(3 if owner == PacketType.PUBLISH else 1)}
    carried = {row.field: values[row.field] for row in PROPERTY_TABLE if owner in row.owners}
    return st.fixed_dictionaries({}, optional=carried).map(_with_method)


def _identifiers(most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, 0x0FFF_FFFF), max_size=most).map(tuple)


def _with_method(chosen: dict[str, Any]) -> Properties:
    if "authentication_data" in chosen:
        chosen.setdefault("authentication_method", "M")
    return Properties(**chosen)


def _properties_in(version: int, owner: int) -> st.SearchStrategy[Properties]:
    return properties(owner) if version == V5 else st.just(NO_PROPERTIES)


def _reasons(kind: PacketType) -> st.SearchStrategy[int]:
    return st.sampled_from(sorted(ALLOWED_REASONS[kind]))


def wills(version: int) -> st.SearchStrategy[Will]:
    return st.builds(Will, topics, blobs, qos, st.booleans(), _properties_in(version, WILL_OWNER))


def connects(version: int) -> st.SearchStrategy[Connect]:
    username = st.none() | text
    password = st.none() | blobs
    credentials = st.tuples(username, password)
    if version != V5:
        credentials = credentials.map(lambda pair: pair if pair[0] is not None else (None, None))
    return st.builds(
        lambda client_id, clean, keep_alive_s, will, pair, block: Connect(
            client_id, clean, keep_alive_s, version, will, pair[0], pair[1], block
        ),
        text,
        st.booleans(),
        u16,
        st.none() | wills(version),
        credentials,
        _properties_in(version, PacketType.CONNECT),
    )


def connacks(version: int) -> st.SearchStrategy[Connack]:
    known_to_mqtt_3 = st.sampled_from((0, 0x84, 0x85, 0x86, 0x87, 0x88))
    reasons = _reasons(PacketType.CONNACK) if version == V5 else known_to_mqtt_3
    present = st.booleans() if version != V31 else st.just(False)
    return st.builds(
        lambda present, reason, block: Connack(present and reason == 0, reason, block),
        present,
        reasons,
        _properties_in(version, PacketType.CONNACK),
    )


def publishes(version: int) -> st.SearchStrategy[Publish]:
    return st.builds(
        lambda topic, payload, level, retain, dup, packet_id, block: Publish(
            topic if block.topic_alias is None or retain else "",
            payload,
            level,
            retain,
            dup and level > 0,
            packet_id if level else 0,
            block,
        ),
        topics,
        st.binary(max_size=300),
        qos,
        st.booleans(),
        st.booleans(),
        packet_ids,
        _properties_in(version, PacketType.PUBLISH),
    )


def _acknowledgements(version: int, kind: PacketType, build: type) -> st.SearchStrategy[Packet]:
    reason = _reasons(kind) if version == V5 else st.just(0)
    return st.builds(build, packet_ids, reason, _properties_in(version, kind))


def subscriptions(version: int) -> st.SearchStrategy[Subscription]:
    if version != V5:
        return st.builds(Subscription, names, qos)
    plain = names.map("a{}".format)
    shared = names.map("$share/g/{}".format)
    options = st.tuples(qos, st.booleans(), st.booleans(), st.integers(0, 2))
    return st.builds(lambda filter_, chosen: Subscription(filter_, *chosen), plain, options) | st.builds(
        lambda filter_, chosen: Subscription(filter_, chosen[0], False, *chosen[2:]), shared, options
    )


def _answers(version: int, kind: PacketType) -> st.SearchStrategy[tuple[int, ...]]:
    one = _reasons(kind) if version == V5 else st.sampled_from((0, 1, 2, 0x80))
    return st.lists(one, min_size=1, max_size=5).map(tuple)


def _some(one: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(one, min_size=1, max_size=4).map(tuple)


def _auths() -> st.SearchStrategy[Auth]:
    def build(reason: int, block: Properties) -> Auth:
        return Auth(reason if block.authentication_method is not None else 0, block)

    return st.builds(build, _reasons(PacketType.AUTH), properties(PacketType.AUTH))


@cache
def packets(version: int) -> st.SearchStrategy[Packet]:
    """Any packet of a version, every type as likely as the next."""
    kinds = PacketType
    return st.one_of(
        connects(version),
        connacks(version),
        publishes(version),
        _acknowledgements(version, kinds.PUBACK, Puback),
        _acknowledgements(version, kinds.PUBREC, Pubrec),
        _acknowledgements(version, kinds.PUBREL, Pubrel),
        _acknowledgements(version, kinds.PUBCOMP, Pubcomp),
        st.builds(
            Subscribe,
            packet_ids,
            _some(subscriptions(version)),
            _properties_in(version, kinds.SUBSCRIBE),
        ),
        st.builds(Suback, packet_ids, _answers(version, kinds.SUBACK), _properties_in(version, kinds.SUBACK)),
        st.builds(Unsubscribe, packet_ids, _some(names), _properties_in(version, kinds.UNSUBSCRIBE)),
        st.builds(
            Unsuback,
            packet_ids,
            _answers(version, kinds.UNSUBACK) if version == V5 else st.just(()),
            _properties_in(version, kinds.UNSUBACK),
        ),
        st.builds(Pingreq),
        st.builds(Pingresp),
        st.builds(
            Disconnect,
            _reasons(kinds.DISCONNECT) if version == V5 else st.just(0),
            _properties_in(version, kinds.DISCONNECT),
        ),
        _auths() if version == V5 else st.nothing(),
    )
