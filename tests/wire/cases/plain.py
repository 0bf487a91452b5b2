"""PINGREQ, PINGRESP, DISCONNECT, and first bytes that no packet has."""

from braidmq.wire import V5, Disconnect, Pingreq, Pingresp, Properties
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

EVERY_PROPERTY = block("11 00000000", "1c", text("other"), "1f", text("why"), "26", text("k"), text("v"))

GOOD = [
    *good_in(ALL, "pingreq", frame(0xC0), Pingreq()),
    *good_in(ALL, "pingresp", frame(0xD0), Pingresp()),
    *good_in(ALL, "disconnect, least", frame(0xE0), Disconnect()),
    GoodPacket("disconnect, success in one byte", V5, frame(0xE0, "00"), Disconnect(), canonical=False),
    GoodPacket("disconnect, success in full", V5, frame(0xE0, "00 00"), Disconnect(), canonical=False),
    GoodPacket("disconnect, with will", V5, frame(0xE0, "04"), Disconnect(4)),
    GoodPacket("disconnect, method is bad", V5, frame(0xE0, "8c"), Disconnect(0x8C)),
    GoodPacket(
        "disconnect, every property",
        V5,
        frame(0xE0, "9c", EVERY_PROPERTY),
        Disconnect(
            0x9C,
            Properties(
                session_expiry_s=0,
                server_reference="other",
                reason_string="why",
                user_properties=(("k", "v"),),
            ),
        ),
    ),
]

BAD = [
    *bad_in(ALL, "pingreq, a byte", MALFORMED, "", frame(0xC0, "00")),
    *bad_in(ALL, "pingreq, flags", MALFORMED, "[MQTT-2.1.3-1]", frame(0xC1)),
    *bad_in(ALL, "pingresp, a byte", MALFORMED, "", frame(0xD0, "00")),
    *bad_in(ALL, "pingresp, flags", MALFORMED, "[MQTT-2.1.3-1]", frame(0xD8)),
    *bad_in(ALL, "disconnect, flags", MALFORMED, "[MQTT-3.14.1-1]", frame(0xE2)),
    *bad_in(V3_BOTH, "disconnect, reason", MALFORMED, "", frame(0xE0, "00")),
    BadPacket("disconnect, unknown reason", V5, frame(0xE0, "01"), VIOLATION, "[MQTT-3.14.2-1]"),
    BadPacket("disconnect, reason of CONNACK", V5, frame(0xE0, "84"), VIOLATION, "[MQTT-3.14.2-1]"),
    BadPacket("disconnect, byte too many", V5, frame(0xE0, "00 00 00"), MALFORMED),
    *bad_in(ALL, "packet type 0", MALFORMED, "[MQTT-4.13.1-1]", frame(0x00)),
    *bad_in(ALL, "packet type 0 with flags", MALFORMED, "[MQTT-4.13.1-1]", frame(0x0F, "00")),
]
