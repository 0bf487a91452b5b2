"""The PROXY protocol: headers good and bad, and a listener that wants one."""

import ssl
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.net.proxy import SIGNATURE, HeaderError, parse_version_1, parse_version_2, read_header
from braidmq.wire import V5, Connect
from tests.net.certificates import Authority
from tests.net.running import serving
from tests.support.raw import RawClient

LINE = b"PROXY TCP4 192.0.2.1 192.0.2.9 56324 1883\r\n"


def version_2(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + bytes((command, family)) + len(body).to_bytes(2) + body


def addresses(source: str, target: str, port: int) -> bytes:
    return ip_address(source).packed + ip_address(target).packed + port.to_bytes(2) + (1883).to_bytes(2)


async def read_all(data: bytes) -> tuple[object, bytes]:
    """What the header says, and what of `data` follows it."""
    at = 0

    async def read(count: int) -> bytes:
        nonlocal at
        if at + count > len(data):
            raise HeaderError("the end")
        at += count
        return data[at - count : at]

    return await read_header(read), data[at:]


@pytest.mark.parametrize(
    ("header", "client"),
    [
        (LINE, ("192.0.2.1", 56324)),
        (b"PROXY TCP6 2001:db8::1 ::1 7 1883\r\n", ("2001:db8::1", 7)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN whatever 1 2\r\n", None),
        (version_2(0x21, 0x11, addresses("192.0.2.1", "192.0.2.9", 56324)), ("192.0.2.1", 56324)),
        (version_2(0x21, 0x21, addresses("2001:db8::1", "::1", 7) + b"\x04\0\1x"), ("2001:db8::1", 7)),
        (version_2(0x20, 0x00, b""), None),
        (version_2(0x21, 0x31, b"a path" * 40), None),
    ],
)
async def test_a_header_is_read_to_its_end_and_no_further(header: bytes, client: object) -> None:
    assert await read_all(header + b"rest") == (client, b"rest")


@pytest.mark.parametrize(
    "header",
    [
        b"\x10\x0f\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x02me",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 56324\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 56324 70000\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 -1 1883\r\n",
        b"PROXY TCP4 2001:db8::1 ::1 7 1883\r\n",
        b"PROXY UDP4 192.0.2.1 192.0.2.9 56324 1883\r\n",
        b"PROXY TCP4 " + b"1" * 200,
        version_2(0x31, 0x11, addresses("192.0.2.1", "192.0.2.9", 1)),
        version_2(0x21, 0x11, b"short"),
        SIGNATURE + b"\x21\x11\xff\xff" + b"x" * 100,
        SIGNATURE[:7],
    ],
)
async def test_anything_else_is_refused(header: bytes) -> None:
    with pytest.raises(HeaderError):
        await read_all(header)


@given(st.binary(max_size=120), st.binary(min_size=4, max_size=4), st.binary(max_size=60))
def test_no_header_does_worse_than_be_refused(line: bytes, head: bytes, body: bytes) -> None:
    for parse in (lambda: parse_version_1(b"PROXY " + line), lambda: parse_version_2(head, body)):
        try:
            parse()
        except HeaderError:
            continue


class ProxiedClient(RawClient):
    def __init__(self, port: int, header: bytes, context: ssl.SSLContext | None = None) -> None:
        super().__init__(port, V5)
        self.send_bytes(header)
        if context is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname="localhost")


def test_a_proxied_listener_wants_the_header_first_also_before_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "localhost")
    tls = {"certificate": str(certificate), "key": str(key), "proxy_protocol": True}
    with serving([{"proxy_protocol": True}, tls], '[log]\nlevel = "debug"\n') as (broker, ports):
        plain = ProxiedClient(ports[0], LINE)
        plain.connect("behind-a-proxy")
        plain.disconnect()
        trusting = ssl.create_default_context(cafile=str(authority.path))
        secure = ProxiedClient(ports[1], version_2(0x20, 0, b""), trusting)
        secure.connect("behind-a-tls-proxy")
        secure.disconnect()
        bare = RawClient(ports[0], V5)
        bare.send(Connect("without-a-header"))
        bare.expect_closed()
        assert "192.0.2.1:56324" in broker.log()
