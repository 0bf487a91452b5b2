"""PUBLISH and the four packets that acknowledge it."""

from braidmq.wire import (
    V5,
    V31,
    V311,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
)
from tests.wire.cases.building import (
    ALL,
    BAD_ALIAS,
    BAD_TOPIC,
    MALFORMED,
    V3_BOTH,
    VIOLATION,
    BadPacket,
    GoodPacket,
    bad_in,
    binary,
    block,
    frame,
    good_in,
    text,
)

T = text("a/b")
EVERY_PROPERTY = block(
    "01 00", "02 00000000", "03", text("é"), "08", text("answers"), "09", binary(b"\x00"),
    "0b 01", "0b ffffff7f", "23 ffff", "26", text("k"), text("v"), "26", text("k"), text("v"),
)  # fmt: skip

# First byte, name and value of the four acknowledgements.
Answer = type[Puback | Pubrec | Pubrel | Pubcomp]
ANSWERS: tuple[tuple[int, str, Answer], ...] = (
    (0x40, "puback", Puback),
    (0x50, "pubrec", Pubrec),
    (0x62, "pubrel", Pubrel),
    (0x70, "pubcomp", Pubcomp),
)
ANSWER_REASONS = "[MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1]"


def _good_answers(first: int, name: str, build: Answer) -> list[GoodPacket]:
    why = Properties(reason_string="fine", user_properties=(("k", "v"),))
    every_property = frame(first, "ffff 00", block("1f", text("fine"), "26", text("k"), text("v")))
    return [
        *good_in(ALL, f"{name}, least", frame(first, "0001"), build(1)),
        GoodPacket(f"{name}, success in three bytes", V5, frame(first, "0001 00"), build(1), False),
        GoodPacket(f"{name}, success in full", V5, frame(first, "0001 00 00"), build(1), False),
        GoodPacket(f"{name}, every property", V5, every_property, build(65535, 0, why)),
    ]


def _good_v3(name: str, data: bytes, packet: Publish) -> list[GoodPacket]:
    return good_in(V3_BOTH, f"publish, {name}", data, packet)


def _good_v5(name: str, data: bytes, packet: Publish) -> GoodPacket:
    return GoodPacket(f"publish, {name}", V5, data, packet)


GOOD = [
    *_good_v3("least", frame(0x30, T), Publish("a/b")),
    *_good_v3("retain", frame(0x31, T, b"\x00\xff"), Publish("a/b", b"\x00\xff", retain=True)),
    *_good_v3("QoS 1", frame(0x32, T, "0001", b"x"), Publish("a/b", b"x", 1, packet_id=1)),
    *_good_v3("QoS 2 again", frame(0x3C, T, "ffff"), Publish("a/b", b"", 2, dup=True, packet_id=65535)),
    _good_v5("least", frame(0x30, T, "00"), Publish("a/b")),
    _good_v5("QoS 1, all flags", frame(0x3B, T, "0102 00", b"xy"), Publish("a/b", b"xy", 1, True, True, 258)),
    _good_v5("QoS 2", frame(0x34, T, "000a 00", b"x"), Publish("a/b", b"x", 2, packet_id=10)),
    _good_v5("U+10FFFF", frame(0x30, text("\U0010ffff"), "00"), Publish("\U0010ffff")),
    _good_v5("two bytes of length", frame(0x30, T, "00", b"x" * 200), Publish("a/b", b"x" * 200)),
    _good_v5(
        "alias alone",
        frame(0x30, text(""), block("23 0001"), b"x"),
        Publish("", b"x", properties=Properties(topic_alias=1)),
    ),
    _good_v5(
        "every property",
        frame(0x30, T, EVERY_PROPERTY, b"x"),
        Publish(
            "a/b",
            b"x",
            properties=Properties(
                payload_format=0,
                message_expiry_s=0,
                content_type="é",
                response_topic="answers",
                correlation_data=b"\x00",
                subscription_identifiers=(1, 268435455),
                topic_alias=65535,
                user_properties=(("k", "v"), ("k", "v")),
            ),
        ),
    ),
    *(row for answer in ANSWERS for row in _good_answers(*answer)),
    GoodPacket("puback, nobody listens", V5, frame(0x40, "0001 10"), Puback(1, 0x10)),
    GoodPacket("pubrec, over quota", V5, frame(0x50, "0001 97"), Pubrec(1, 0x97)),
    GoodPacket("pubrel, id not found", V5, frame(0x62, "0001 92"), Pubrel(1, 0x92)),
    GoodPacket("pubcomp, id not found", V5, frame(0x70, "0001 92"), Pubcomp(1, 0x92)),
    GoodPacket("pubrel, again", V31, frame(0x6A, "0001"), Pubrel(1), canonical=False),
]


def _bad_answers(first: int, name: str, _build: Answer) -> list[BadPacket]:
    flags = "[MQTT-2.1.3-1] [MQTT-3.6.1-1]"
    return [
        *bad_in(ALL, f"{name}, empty", MALFORMED, "", frame(first)),
        *bad_in(ALL, f"{name}, half a packet id", MALFORMED, "", frame(first, "00")),
        *bad_in(ALL, f"{name}, packet id 0", VIOLATION, "[MQTT-2.2.1-3]", frame(first, "0000")),
        *bad_in(ALL, f"{name}, flags", MALFORMED, flags, frame(first ^ 1, "0001")),
        *bad_in(V3_BOTH, f"{name}, reason", MALFORMED, "", frame(first, "0001 00")),
        BadPacket(f"{name}, unknown reason", V5, frame(first, "0001 01"), VIOLATION, ANSWER_REASONS),
        BadPacket(f"{name}, byte too many", V5, frame(first, "0001 00 00 00"), MALFORMED),
    ]


def _bad(name: str, reason: ReasonCode, rules: str, first: int, *parts: str | bytes) -> BadPacket:
    return BadPacket(name, V5, frame(first, *parts), reason, rules)


def _bad_properties(name: str, reason: ReasonCode, rules: str, *parts: str | bytes) -> BadPacket:
    return _bad(f"publish, {name}", reason, rules, 0x30, T, block(*parts), b"x")


BAD = [
    *bad_in(ALL, "publish, QoS 3", MALFORMED, "[MQTT-3.3.1-4]", frame(0x36, T, "0001 00")),
    *bad_in(ALL, "publish, QoS 0 again", MALFORMED, "[MQTT-3.3.1-2]", frame(0x38, T, "00")),
    *bad_in(ALL, "publish, packet id 0", VIOLATION, "[MQTT-2.2.1-3]", frame(0x32, T, "0000 00")),
    *bad_in(ALL, "publish, empty", MALFORMED, "[MQTT-3.3.2-1]", frame(0x30)),
    *bad_in(ALL, "publish, topic cut off", MALFORMED, "", frame(0x30, "0004", b"a/b")),
    *bad_in(ALL, "publish, no packet id", MALFORMED, "", frame(0x32, T)),
    *bad_in(ALL, "publish, half a packet id", MALFORMED, "", frame(0x32, T, "00")),
    *bad_in(ALL, "publish, + in topic", BAD_TOPIC, "[MQTT-3.3.2-2]", frame(0x30, text("a/+"), "00")),
    *bad_in(ALL, "publish, # in topic", BAD_TOPIC, "[MQTT-3.3.2-2]", frame(0x30, text("a#b"), "00")),
    *bad_in(ALL, "publish, ill-formed topic", MALFORMED, "[MQTT-3.3.2-1]", frame(0x30, text(b"a\xfe"), "00")),
    *bad_in(ALL, "publish, U+0000 in topic", MALFORMED, "[MQTT-4.7.3-2]", frame(0x30, text(b"a\x00"), "00")),
    *bad_in(ALL, "publish, surrogate", MALFORMED, "[MQTT-1.5.4-1]", frame(0x30, text(b"\xed\xbf\xbf"), "00")),
    *bad_in(V3_BOTH, "publish, empty topic", MALFORMED, "3.1.1 [MQTT-4.7.3-1]", frame(0x30, text(""), b"x")),
    _bad("publish, empty topic without alias", VIOLATION, "[MQTT-4.7.3-1]", 0x30, text(""), "00"),
    _bad("publish, no property length", MALFORMED, "[MQTT-2.2.2-1]", 0x30, T),
    _bad("publish, property length too long", MALFORMED, "", 0x30, T, "02 01"),
    _bad("publish, property length not minimal", MALFORMED, "[MQTT-1.5.5-1]", 0x30, T, "82 00 01 01"),
    _bad("publish, property length of 5 bytes", MALFORMED, "[MQTT-1.5.5-1]", 0x30, T, "ff ff ff ff 01"),
    _bad("publish, property length unfinished", MALFORMED, "", 0x30, T, "80"),
    _bad_properties("topic alias 0", BAD_ALIAS, "[MQTT-3.3.2-8]", "23 0000"),
    _bad_properties("payload format 2", VIOLATION, "", "01 02"),
    _bad_properties("+ in response topic", VIOLATION, "[MQTT-3.3.2-14]", "08", text("a/+")),
    _bad_properties("# in response topic", VIOLATION, "[MQTT-3.3.2-14]", "08", text("#")),
    _bad_properties("empty response topic", VIOLATION, "[MQTT-4.7.3-1]", "08", text("")),
    _bad_properties("ill-formed response topic", MALFORMED, "[MQTT-3.3.2-13]", "08", text(b"\x80")),
    _bad_properties("ill-formed content type", MALFORMED, "[MQTT-3.3.2-19]", "03", text(b"\xe2\x82")),
    _bad_properties("ill-formed user name", MALFORMED, "[MQTT-1.5.7-1]", "26", text(b"\xff"), text("v")),
    _bad_properties("U+0000 in user value", MALFORMED, "[MQTT-1.5.7-1]", "26", text("k"), text(b"\x00")),
    _bad_properties("user property without a value", MALFORMED, "", "26", text("k")),
    _bad_properties("subscription identifier 0", VIOLATION, "", "0b 00"),
    _bad_properties("subscription identifier not minimal", MALFORMED, "[MQTT-1.5.5-1]", "0b 81 00"),
    _bad_properties("subscription identifier too long", MALFORMED, "[MQTT-1.5.5-1]", "0b 80 80 80 80 01"),
    _bad_properties("property that runs over the block", MALFORMED, "", "02 000000"),
    _bad_properties("unknown property", MALFORMED, "", "7e 00"),
    _bad_properties("identifier of two bytes", MALFORMED, "", "81 01 00"),
    _bad_properties("identifier not minimal", MALFORMED, "[MQTT-1.5.5-1]", "81 00 01"),
    _bad_properties("property 0", MALFORMED, "", "00"),
    *(row for answer in ANSWERS for row in _bad_answers(*answer)),
    *bad_in((V311, V5), "pubrel, again", MALFORMED, "[MQTT-3.6.1-1]", frame(0x6A, "0001")),
    _bad("puback, reason of a second answer", VIOLATION, "[MQTT-3.4.2-1]", 0x40, "0001 92"),
    _bad("pubrec, reason of a second answer", VIOLATION, "[MQTT-3.5.2-1]", 0x50, "0001 92"),
    _bad("pubrel, reason of a first answer", VIOLATION, "[MQTT-3.6.2-1]", 0x62, "0001 10"),
    _bad("pubcomp, reason of a first answer", VIOLATION, "[MQTT-3.7.2-1]", 0x70, "0001 10"),
]
