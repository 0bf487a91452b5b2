"""SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK."""

from braidmq.wire import (
    V5,
    V31,
    V311,
    Properties,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from tests.wire.cases.building import (
    ALL,
    MALFORMED,
    V3_BOTH,
    VIOLATION,
    BadPacket,
    GoodPacket,
    bad_in,
    block,
    frame,
    good_in,
    text,
)

F = text("a/#")
WHY = block("1f", text("why"), "26", text("k"), text("v"))
WHY_PROPERTIES = Properties(reason_string="why", user_properties=(("k", "v"),))

GOOD = [
    *good_in(V3_BOTH, "subscribe", frame(0x82, "0001", F, "01"), Subscribe(1, (Subscription("a/#", 1),))),
    *good_in(
        V3_BOTH,
        "subscribe, two",
        frame(0x82, "ffff", F, "02", text("b"), "00"),
        Subscribe(65535, (Subscription("a/#", 2), Subscription("b"))),
    ),
    GoodPacket(
        "subscribe, again",
        V31,
        frame(0x8A, "0001", F, "01"),
        Subscribe(1, (Subscription("a/#", 1),)),
        canonical=False,
    ),
    GoodPacket("subscribe, one", V5, frame(0x82, "0001 00", F, "00"), Subscribe(1, (Subscription("a/#"),))),
    GoodPacket(
        "subscribe, every option",
        V5,
        frame(0x82, "0001 00", F, "1e", F, "20", text("$share/g/a"), "09"),
        Subscribe(
            1,
            (
                Subscription("a/#", 2, no_local=True, retain_as_published=True, retain_handling=1),
                Subscription("a/#", retain_handling=2),
                Subscription("$share/g/a", 1, retain_as_published=True),
            ),
        ),
    ),
    GoodPacket(
        "subscribe, every property",
        V5,
        frame(0x82, "0001", block("0b 80 01", "26", text("k"), text("v")), F, "00"),
        Subscribe(
            1,
            (Subscription("a/#"),),
            Properties(subscription_identifiers=(128,), user_properties=(("k", "v"),)),
        ),
    ),
    *good_in(V3_BOTH, "suback, every code", frame(0x90, "0001 00 01 02 80"), Suback(1, (0, 1, 2, 0x80))),
    GoodPacket(
        "suback, every reason",
        V5,
        frame(0x90, "0001 00 00 01 02 80 83 87 8f 91 97 9e a1 a2"),
        Suback(1, (0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)),
    ),
    GoodPacket("suback, every property", V5, frame(0x90, "0001", WHY, "00"), Suback(1, (0,), WHY_PROPERTIES)),
    *good_in(V3_BOTH, "unsubscribe, two", frame(0xA2, "0001", F, text("b")), Unsubscribe(1, ("a/#", "b"))),
    GoodPacket("unsubscribe, again", V31, frame(0xAA, "0001", F), Unsubscribe(1, ("a/#",)), canonical=False),
    GoodPacket("unsubscribe, two", V5, frame(0xA2, "0001 00", F, text("b")), Unsubscribe(1, ("a/#", "b"))),
    GoodPacket(
        "unsubscribe, every property",
        V5,
        frame(0xA2, "0001", block("26", text("k"), text("v")), F),
        Unsubscribe(1, ("a/#",), Properties(user_properties=(("k", "v"),))),
    ),
    *good_in(V3_BOTH, "unsuback", frame(0xB0, "0001"), Unsuback(1)),
    GoodPacket(
        "unsuback, every reason",
        V5,
        frame(0xB0, "0001 00 00 11 80 83 87 8f 91"),
        Unsuback(1, (0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)),
    ),
    GoodPacket("unsuback, properties", V5, frame(0xB0, "0001", WHY, "00"), Unsuback(1, (0,), WHY_PROPERTIES)),
]

_FLAGS = "[MQTT-3.8.1-1] [MQTT-3.10.1-1]"


def _bad(name: str, reason: ReasonCode, rules: str, first_byte: int, *parts: str | bytes) -> BadPacket:
    return BadPacket(name, V5, frame(first_byte, *parts), reason, rules)


BAD = [
    *bad_in(ALL, "subscribe, flags 0", MALFORMED, _FLAGS, frame(0x80, "0001 00", F, "00")),
    *bad_in((V311, V5), "subscribe, flags, again", MALFORMED, _FLAGS, frame(0x8A, "0001 00", F, "00")),
    *bad_in(ALL, "subscribe, empty", MALFORMED, "", frame(0x82)),
    *bad_in(ALL, "subscribe, packet id 0", VIOLATION, "[MQTT-2.2.1-3]", frame(0x82, "0000 00", F, "00")),
    *bad_in(V3_BOTH, "subscribe, no filter", VIOLATION, "3.1.1 [MQTT-3.8.3-3]", frame(0x82, "0001")),
    *bad_in(V3_BOTH, "subscribe, QoS 3", MALFORMED, "3.1.1 [MQTT-3-8.3-4]", frame(0x82, "0001", F, "03")),
    *bad_in(V3_BOTH, "subscribe, options of MQTT 5", MALFORMED, "3.1.1 [MQTT-3-8.3-4]",
            frame(0x82, "0001", F, "05")),
    *bad_in(V3_BOTH, "subscribe, empty filter", MALFORMED, "3.1.1 [MQTT-4.7.3-1]",
            frame(0x82, "0001", text(""), "00")),
    _bad("subscribe, no filter", VIOLATION, "[MQTT-3.8.3-2]", 0x82, "0001 00"),
    _bad("subscribe, filter without options", MALFORMED, "", 0x82, "0001 00", F),
    _bad("subscribe, QoS 3", VIOLATION, "", 0x82, "0001 00", F, "03"),
    _bad("subscribe, retain handling 3", VIOLATION, "", 0x82, "0001 00", F, "30"),
    _bad("subscribe, reserved option 0x40", MALFORMED, "[MQTT-3.8.3-5]", 0x82, "0001 00", F, "40"),
    _bad("subscribe, reserved option 0x80", MALFORMED, "[MQTT-3.8.3-5]", 0x82, "0001 00", F, "80"),
    _bad("subscribe, shared with no local", VIOLATION, "[MQTT-3.8.3-4]",
         0x82, "0001 00", text("$share/g/a"), "04"),
    _bad("subscribe, empty filter", VIOLATION, "[MQTT-4.7.3-1]", 0x82, "0001 00", text(""), "00"),
    _bad("subscribe, ill-formed filter", MALFORMED, "[MQTT-3.8.3-1]", 0x82, "0001 00", text(b"\xff"), "00"),
    _bad("subscribe, U+0000 in filter", MALFORMED, "[MQTT-4.7.3-2]", 0x82, "0001 00", text(b"\x00"), "00"),
    _bad("subscribe, second filter bad", VIOLATION, "", 0x82, "0001 00", F, "00", F, "03"),
    _bad("subscribe, two identifiers", VIOLATION, "", 0x82, "0001", block("0b 01 0b 02"), F, "00"),
    _bad("subscribe, identifier 0", VIOLATION, "", 0x82, "0001", block("0b 00"), F, "00"),
    *bad_in(ALL, "suback, flags", MALFORMED, "[MQTT-2.1.3-1]", frame(0x92, "0001 00 00")),
    *bad_in(ALL, "suback, packet id 0", VIOLATION, "", frame(0x90, "0000 00 00")),
    *bad_in(V3_BOTH, "suback, no code", VIOLATION, "", frame(0x90, "0001")),
    *bad_in(V3_BOTH, "suback, reserved code", VIOLATION, "3.1.1 [MQTT-3.9.3-2]", frame(0x90, "0001 81")),
    _bad("suback, no reason", VIOLATION, "", 0x90, "0001 00"),
    _bad("suback, unknown reason", VIOLATION, "[MQTT-3.9.3-2]", 0x90, "0001 00 03"),
    *bad_in(ALL, "unsubscribe, flags 0", MALFORMED, _FLAGS, frame(0xA0, "0001 00", F)),
    *bad_in(ALL, "unsubscribe, packet id 0", VIOLATION, "[MQTT-2.2.1-3]", frame(0xA2, "0000 00", F)),
    *bad_in(V3_BOTH, "unsubscribe, no filter", VIOLATION, "3.1.1 [MQTT-3.10.3-2]", frame(0xA2, "0001")),
    _bad("unsubscribe, no filter", VIOLATION, "[MQTT-3.10.3-2]", 0xA2, "0001 00"),
    _bad("unsubscribe, empty filter", VIOLATION, "[MQTT-4.7.3-1]", 0xA2, "0001 00", text("")),
    _bad("unsubscribe, ill-formed filter", MALFORMED, "[MQTT-3.10.3-1]", 0xA2, "0001 00", text(b"\xc1")),
    _bad("unsubscribe, filter cut off", MALFORMED, "", 0xA2, "0001 00 0002", b"a"),
    *bad_in(ALL, "unsuback, flags", MALFORMED, "[MQTT-2.1.3-1]", frame(0xB2, "0001")),
    *bad_in(V3_BOTH, "unsuback, reasons", MALFORMED, "", frame(0xB0, "0001 00")),
    *bad_in(V3_BOTH, "unsuback, packet id 0", VIOLATION, "", frame(0xB0, "0000")),
    _bad("unsuback, no reason", VIOLATION, "", 0xB0, "0001 00"),
    _bad("unsuback, unknown reason", VIOLATION, "[MQTT-3.11.3-2]", 0xB0, "0001 00 01"),
]  # fmt: skip
