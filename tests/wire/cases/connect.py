"""CONNECT: every flag, field and property, in the three versions."""

from braidmq.wire import V5, V31, V311, Connect, Properties, ReasonCode, Will
from tests.wire.cases.building import (
    BAD_TOPIC,
    BAD_VERSION,
    MALFORMED,
    VIOLATION,
    BadPacket,
    GoodPacket,
    binary,
    block,
    frame,
    text,
)

NAME = text("MQTT")
OLD_NAME = text("MQIsdp")
EVERY_PROPERTY = block(
    "11 00000e10", "15", text("SCRAM"), "16", binary(b"\x00\xff"), "17 00", "19 01",
    "21 0014", "22 000a", "26", text("k"), text("v"), "27 00010000",
)  # fmt: skip
EVERY_WILL_PROPERTY = block(
    "01 01", "02 0000003c", "03", text("text/plain"), "08", text("answers/c"), "09", binary(b"\x01\x02"),
    "18 00000005", "26", text("k"), text("v"), "26", text("k"), text("w"),
)  # fmt: skip

GOOD = [
    GoodPacket("connect, least", V5, frame(0x10, NAME, "05 02 003c 00", text("c")), Connect("c")),
    GoodPacket(
        "connect, no client id, resuming, no keep alive",
        V5,
        frame(0x10, NAME, "05 00 0000 00", text("")),
        Connect("", clean_start=False, keep_alive_s=0),
    ),
    GoodPacket(
        "connect, every property",
        V5,
        frame(0x10, NAME, "05 02 ffff", EVERY_PROPERTY, text("c")),
        Connect(
            "c",
            keep_alive_s=65535,
            properties=Properties(
                session_expiry_s=3600,
                authentication_method="SCRAM",
                authentication_data=b"\x00\xff",
                request_problem_information=False,
                request_response_information=True,
                receive_maximum=20,
                topic_alias_maximum=10,
                user_properties=(("k", "v"),),
                maximum_packet_size_bytes=65536,
            ),
        ),
    ),
    GoodPacket(
        "connect, every will property",
        V5,
        frame(0x10, NAME, "05 f6 003c 00", text("c"), EVERY_WILL_PROPERTY, text("w"), binary(b"gone"),
              text("u"), binary(b"p")),
        Connect(
            "c",
            will=Will(
                "w",
                b"gone",
                qos=2,
                retain=True,
                properties=Properties(
                    payload_format=1,
                    message_expiry_s=60,
                    content_type="text/plain",
                    response_topic="answers/c",
                    correlation_data=b"\x01\x02",
                    will_delay_s=5,
                    user_properties=(("k", "v"), ("k", "w")),
                ),
            ),
            username="u",
            password=b"p",
        ),
    ),
    GoodPacket(
        "connect, empty will payload, empty user name and password",
        V5,
        frame(0x10, NAME, "05 c6 003c 00", text("c"), "00", text("w"), binary(b""), text(""), binary(b"")),
        Connect("c", will=Will("w", b""), username="", password=b""),
    ),
    GoodPacket(
        "connect, password alone",
        V5,
        frame(0x10, NAME, "05 42 003c 00", text("c"), binary(b"p")),
        Connect("c", password=b"p"),
    ),
    GoodPacket(
        "connect, U+FEFF kept",
        V5,
        frame(0x10, NAME, "05 02 003c 00", text(b"\xef\xbb\xbfc")),
        Connect("\ufeffc"),
    ),
    GoodPacket(
        "connect, least", V311, frame(0x10, NAME, "04 02 003c", text("c")), Connect("c", version=V311)
    ),
    GoodPacket(
        "connect, will and credentials",
        V311,
        frame(0x10, NAME, "04 ec 003c", text("c"), text("w"), binary(b"gone"), text("u"), binary(b"\xff")),
        Connect("c", False, 60, V311, Will("w", b"gone", qos=1, retain=True), "u", b"\xff"),
    ),
    GoodPacket(
        "connect, least", V31, frame(0x10, OLD_NAME, "03 02 003c", text("c")), Connect("c", version=V31)
    ),
    GoodPacket(
        "connect, will and credentials",
        V31,
        frame(0x10, OLD_NAME, "03 ce 003c", text("c"), text("w"), binary(b"gone"), text("u"), binary(b"p")),
        Connect("c", True, 60, V31, Will("w", b"gone", qos=1), "u", b"p"),
    ),
    GoodPacket(
        "connect, credentials announced and left out",
        V31,
        frame(0x10, OLD_NAME, "03 c2 003c", text("c")),
        Connect("c", version=V31),
        canonical=False,
    ),
    GoodPacket(
        "connect, password announced and left out",
        V31,
        frame(0x10, OLD_NAME, "03 c2 003c", text("c"), text("u")),
        Connect("c", version=V31, username="u"),
        canonical=False,
    ),
]


def _bad(
    name: str, reason: ReasonCode, rules: str, *parts: str | bytes, version: int = V5, first_byte: int = 0x10
) -> BadPacket:
    return BadPacket(name, version, frame(first_byte, *parts), reason, rules)


def _bad_flags(name: str, flags: str, rules: str) -> BadPacket:
    """A CONNECT whose flags byte is the fault; the fields are those of a plain one."""
    return _bad(name, MALFORMED, rules, NAME, "05", flags, "003c 00", text("c"))


def _bad_id(name: str, client_id: bytes, rules: str) -> BadPacket:
    return _bad(name, MALFORMED, rules, NAME, "05 02 003c 00", text(client_id))


BAD = [
    _bad("connect, other protocol", BAD_VERSION, "[MQTT-3.1.2-1]", text("HTTP"), "05 02 003c 00", text("c")),
    _bad("connect, small letters", BAD_VERSION, "[MQTT-3.1.2-1]", text("mqtt"), "05 02 003c 00", text("c")),
    _bad("connect, old name, new level", BAD_VERSION, "[MQTT-3.1.2-1]", OLD_NAME, "05 02 003c 00", text("c")),
    _bad("connect, new name, old level", BAD_VERSION, "[MQTT-3.1.2-2]", NAME, "03 02 003c", text("c")),
    _bad("connect, level 6", BAD_VERSION, "[MQTT-3.1.2-2]", NAME, "06 02 003c 00", text("c")),
    _bad("connect, level 0", BAD_VERSION, "[MQTT-3.1.2-2]", NAME, "00 02 003c", text("c")),
    _bad("connect, bridge bit", BAD_VERSION, "[MQTT-3.1.2-2]", NAME, "84 02 003c", text("c"), version=V311),
    _bad("connect, ill-formed name", MALFORMED, "[MQTT-1.5.4-1]", text(b"M\xff"), "05 02 003c 00", text("c")),
    _bad_flags("connect, reserved flag", "03", "[MQTT-3.1.2-3]"),
    _bad_flags("connect, will QoS 1 without a will", "0a", "[MQTT-3.1.2-11]"),
    _bad_flags("connect, will QoS 2 without a will", "12", "[MQTT-3.1.2-11]"),
    _bad_flags("connect, will retain without a will", "22", "[MQTT-3.1.2-13]"),
    _bad("connect, will QoS 3", MALFORMED, "[MQTT-3.1.2-12]",
         NAME, "05 1e 003c 00", text("c"), "00", text("w"), binary(b"")),
    _bad("connect, reserved flag", MALFORMED, "[MQTT-3.1.2-3]", NAME, "04 03 003c", text("c"), version=V311),
    _bad("connect, password without user name", MALFORMED, "3.1.1 [MQTT-3.1.2-22]",
         NAME, "04 42 003c", text("c"), binary(b"p"), version=V311),
    _bad("connect, password without user name", MALFORMED, "",
         OLD_NAME, "03 42 003c", text("c"), binary(b"p"), version=V31),
    _bad("connect, user name left out", MALFORMED, "3.1.1 [MQTT-3.1.2-19]",
         NAME, "04 82 003c", text("c"), version=V311),
    _bad_flags("connect, user name left out", "82", "[MQTT-3.1.2-17]"),
    _bad_flags("connect, password left out", "42", "[MQTT-3.1.2-19]"),
    _bad_flags("connect, will left out", "06", "[MQTT-3.1.2-9]"),
    _bad("connect, user name without its flag", MALFORMED, "[MQTT-3.1.2-16]",
         NAME, "05 02 003c 00", text("c"), text("u")),
    _bad("connect, password without its flag", MALFORMED, "[MQTT-3.1.2-18]",
         NAME, "05 82 003c 00", text("c"), text("u"), binary(b"p")),
    _bad("connect, no client id field", MALFORMED, "[MQTT-3.1.3-3]", NAME, "05 02 003c 00"),
    _bad("connect, no property length", MALFORMED, "[MQTT-2.2.2-1]", NAME, "05 02 003c", text("c")),
    _bad_id("connect, ill-formed client id", b"\xc3", "[MQTT-3.1.3-4]"),
    _bad_id("connect, surrogate in client id", b"\xed\xa0\x80", "[MQTT-1.5.4-1]"),
    _bad_id("connect, over-long UTF-8 form", b"\xc0\xaf", "[MQTT-1.5.4-1]"),
    _bad_id("connect, U+0000 in client id", b"a\x00b", "[MQTT-1.5.4-2]"),
    _bad("connect, ill-formed will topic", MALFORMED, "[MQTT-3.1.3-11]",
         NAME, "05 06 003c 00", text("c"), "00", text(b"\xff"), binary(b"")),
    _bad("connect, wildcard in will topic", BAD_TOPIC, "[MQTT-4.7.1-1]",
         NAME, "05 06 003c 00", text("c"), "00", text("a/#"), binary(b"")),
    _bad("connect, empty will topic", VIOLATION, "[MQTT-4.7.3-1]",
         NAME, "05 06 003c 00", text("c"), "00", text(""), binary(b"")),
    _bad("connect, empty will topic", MALFORMED, "3.1.1 [MQTT-4.7.3-1]",
         NAME, "04 06 003c", text("c"), text(""), binary(b""), version=V311),
    _bad("connect, ill-formed user name", MALFORMED, "[MQTT-3.1.3-12]",
         NAME, "05 82 003c 00", text("c"), text(b"\xf8")),
    _bad("connect, authentication data without method", VIOLATION, "",
         NAME, "05 02 003c", block("16", binary(b"x")), text("c")),
    _bad("connect, will delay among its own properties", MALFORMED, "",
         NAME, "05 02 003c", block("18 00000005"), text("c")),
    _bad("connect, session expiry among the will's properties", MALFORMED, "",
         NAME, "05 06 003c 00", text("c"), block("11 00000005"), text("w"), binary(b"")),
    _bad("connect, flags in the first byte", MALFORMED, "[MQTT-2.1.3-1]",
         NAME, "05 02 003c 00", text("c"), first_byte=0x11),
    _bad("connect, empty", MALFORMED, "[MQTT-3.1.4-1]"),
]  # fmt: skip
