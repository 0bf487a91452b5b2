"""CONNACK and AUTH: the answers of the handshake."""

from braidmq.wire import V5, V31, V311, Auth, Connack, Properties, ReasonCode
from tests.wire.cases.building import (
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

EVERY_PROPERTY = block(
    "11 ffffffff", "12", text("made-up"), "13 001e", "15", text("SCRAM"), "16", binary(b"\x01"),
    "1a", text("r/"), "1c", text("other:1883"), "1f", text("why"), "21 ffff", "22 0000", "24 01", "25 00",
    "26", text(""), text(""), "27 00000001", "28 01", "29 00", "2a 01",
)  # fmt: skip
AUTH_PROPERTIES = block("15", text("M"), "16", binary(b"d"), "1f", text("go on"), "26", text("k"), text("v"))
METHOD = block("15", text("M"))

GOOD = [
    GoodPacket("connack, accepted", V5, frame(0x20, "00 00 00"), Connack()),
    GoodPacket("connack, session present", V5, frame(0x20, "01 00 00"), Connack(session_present=True)),
    GoodPacket("connack, refused", V5, frame(0x20, "00 87 00"), Connack(reason=ReasonCode.NOT_AUTHORIZED)),
    GoodPacket(
        "connack, every property",
        V5,
        frame(0x20, "00 00", EVERY_PROPERTY),
        Connack(
            properties=Properties(
                session_expiry_s=0xFFFFFFFF,
                assigned_client_id="made-up",
                server_keep_alive_s=30,
                authentication_method="SCRAM",
                authentication_data=b"\x01",
                response_information="r/",
                server_reference="other:1883",
                reason_string="why",
                receive_maximum=65535,
                topic_alias_maximum=0,
                maximum_qos=1,
                retain_available=False,
                user_properties=(("", ""),),
                maximum_packet_size_bytes=1,
                wildcard_subscription_available=True,
                subscription_identifiers_available=False,
                shared_subscription_available=True,
            )
        ),
    ),
    *good_in(V3_BOTH, "connack, accepted", frame(0x20, "00 00"), Connack()),
    GoodPacket("connack, session present", V311, frame(0x20, "01 00"), Connack(session_present=True)),
    GoodPacket("connack, byte without a meaning", V31, frame(0x20, "07 00"), Connack(), canonical=False),
    *good_in(V3_BOTH, "connack, code 1", frame(0x20, "00 01"), Connack(reason=0x84)),
    *good_in(V3_BOTH, "connack, code 2", frame(0x20, "00 02"), Connack(reason=0x85)),
    *good_in(V3_BOTH, "connack, code 3", frame(0x20, "00 03"), Connack(reason=0x88)),
    *good_in(V3_BOTH, "connack, code 4", frame(0x20, "00 04"), Connack(reason=0x86)),
    *good_in(V3_BOTH, "connack, code 5", frame(0x20, "00 05"), Connack(reason=0x87)),
    GoodPacket("auth, success", V5, frame(0xF0), Auth()),
    GoodPacket("auth, success in full", V5, frame(0xF0, "00 00"), Auth(), canonical=False),
    GoodPacket(
        "auth, every property",
        V5,
        frame(0xF0, "18", AUTH_PROPERTIES),
        Auth(
            ReasonCode.CONTINUE_AUTHENTICATION,
            Properties(
                authentication_method="M",
                authentication_data=b"d",
                reason_string="go on",
                user_properties=(("k", "v"),),
            ),
        ),
    ),
    GoodPacket(
        "auth, again",
        V5,
        frame(0xF0, "19", METHOD),
        Auth(ReasonCode.RE_AUTHENTICATE, Properties(authentication_method="M")),
    ),
]  # fmt: skip

BAD = [
    BadPacket("connack, reserved flags", V5, frame(0x20, "02 00 00"), MALFORMED, "[MQTT-3.2.2-1]"),
    BadPacket("connack, reserved flags", V311, frame(0x20, "80 00"), MALFORMED, "3.1.1 [MQTT-3.2.2-1]"),
    BadPacket("connack, refused with session", V5, frame(0x20, "01 87 00"), VIOLATION, "[MQTT-3.2.2-6]"),
    BadPacket("connack, refused with session", V311, frame(0x20, "01 05"), VIOLATION, "3.1.1 [MQTT-3.2.2-4]"),
    BadPacket("connack, reason of DISCONNECT", V5, frame(0x20, "00 8e 00"), VIOLATION, "[MQTT-3.2.2-8]"),
    BadPacket("connack, unknown reason", V5, frame(0x20, "00 ff 00"), VIOLATION, "[MQTT-3.2.2-8]"),
    BadPacket("connack, no property length", V5, frame(0x20, "00 00"), MALFORMED, "[MQTT-2.2.2-1]"),
    *bad_in(V3_BOTH, "connack, code 6", VIOLATION, "", frame(0x20, "00 06")),
    *bad_in(V3_BOTH, "connack, properties", MALFORMED, "", frame(0x20, "00 00 00")),
    BadPacket("connack, maximum QoS 2", V5, frame(0x20, "00 00", block("24 02")), VIOLATION),
    BadPacket("connack, flags in the first byte", V5, frame(0x24, "00 00 00"), MALFORMED, "[MQTT-2.1.3-1]"),
    *bad_in(V3_BOTH, "auth", MALFORMED, "3.1.1 [MQTT-2.2.2-2]", frame(0xF0)),
    BadPacket("auth, flags", V5, frame(0xF1), MALFORMED, "[MQTT-3.15.1-1]"),
    BadPacket("auth, reason alone", V5, frame(0xF0, "00"), MALFORMED),
    BadPacket("auth, unknown reason", V5, frame(0xF0, "80", METHOD), VIOLATION, "[MQTT-3.15.2-1]"),
    BadPacket("auth, no method", V5, frame(0xF0, "18 00"), VIOLATION),
    BadPacket("auth, data without method", V5, frame(0xF0, "18", block("16", binary(b"d"))), VIOLATION),
]  # fmt: skip
