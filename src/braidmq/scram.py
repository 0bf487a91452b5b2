"""SCRAM-SHA-256 (RFC 5802, RFC 7677): both halves of the exchange as pure values in, bytes out.

Four messages travel: client-first, server-first, client-final, server-final. In MQTT 5 they are the
Authentication Data of CONNECT, AUTH, AUTH and CONNACK. Nonces are arguments, so an exchange is a pure
function of its inputs. The server keeps only a `Credential`: whoever steals it can neither log in nor read
the password.

No channel binding: MQTT carries the exchange inside TLS, but names no binding for it. A client that demands
one is refused, as RFC 5802 asks. The one costly step is PBKDF2 (a few ms at the default iterations); it is
the client's, and the server's only when a credential is made.
"""

import hashlib
import hmac
import stringprep
import unicodedata
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable

import msgspec

from braidmq.errors import BraidError

METHOD = "SCRAM-SHA-256"
ITERATIONS_MIN = 4096  # RFC 7677, section 4
ITERATIONS_DEFAULT = 20_000
ITERATIONS_MAX = 1_000_000  # a hostile server must not keep a client busy for minutes
MESSAGE_BYTES_MAX = 4096  # far above any honest message; bounds what a stranger can make us parse

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class ScramError(BraidError):
    """The exchange failed: a malformed message, a wrong proof or a server that does not know the password."""


class Credential(msgspec.Struct, frozen=True):
    """What a server keeps of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def make_credential(password: str, salt: bytes, iterations: int = ITERATIONS_DEFAULT) -> Credential:
    """Derives what the server has to keep to recognise `password` later."""
    salted = salted_password(password, salt, iterations)
    return Credential(salt, iterations, _hash(_hmac(salted, b"Client Key")), _hmac(salted, b"Server Key"))


def salted_password(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", saslprep(password).encode(), salt, iterations)


def saslprep(text: str) -> str:
    """RFC 4013: makes the ways to type one password the same password, refuses what can't be typed."""
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in text if not stringprep.in_table_b1(char)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    if any(table(char) for char in prepared for table in _PROHIBITED):
        raise ScramError("the name or password has a character that RFC 4013 forbids")
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """RFC 3454, section 6: right-to-left text must be so throughout, and begin and end so."""
    if not any(stringprep.in_table_d1(char) for char in text):
        return
    mixed = any(stringprep.in_table_d2(char) for char in text)
    if mixed or not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise ScramError("the name or password mixes writing directions, which RFC 4013 forbids")


class ScramClient:
    """The client's half: `first()`, then `final(server_first)`, then `verify(server_final)`."""

    def __init__(self, username: str, password: str, nonce: str) -> None:
        _check_nonce(nonce)
        self._password = password
        self._nonce = nonce
        self._first_bare = f"n={_escape(saslprep(username))},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return b"n,," + self._first_bare.encode()

    def final(self, server_first: bytes) -> bytes:
        """Answers the challenge with the proof that we know the password."""
        fields = _fields(server_first, "rsi")
        if not fields["r"].startswith(self._nonce) or fields["r"] == self._nonce:
            raise ScramError("the server's nonce does not continue ours")
        iterations = _iterations(fields["i"])
        salted = salted_password(self._password, _unbase64(fields["s"]), iterations)
        without_proof = f"c=biws,r={fields['r']}"
        authenticated = _authenticated(self._first_bare, server_first, without_proof)
        client_key = _hmac(salted, b"Client Key")
        proof = _xor(client_key, _hmac(_hash(client_key), authenticated))
        self._server_signature = _hmac(_hmac(salted, b"Server Key"), authenticated)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raises unless the server has shown that it knows the password too."""
        if server_final.startswith(b"e="):
            raise ScramError(f"the server refused: {server_final[2:].decode(errors='replace')}")
        signature = _unbase64(_fields(server_final, "v")["v"])
        if not self._server_signature or not hmac.compare_digest(signature, self._server_signature):
            raise ScramError("the server does not know the password")


class ScramServer:
    """The server's half: `challenge(client_first)`, then `finish(client_final)`.

    A name that `lookup` does not know gets a challenge like any other, with a salt that depends on the name
    and on `decoy_key` alone, and fails only at the end: a stranger can't learn which names exist.
    """

    def __init__(self, lookup: Callable[[str], Credential | None], nonce: str, decoy_key: bytes) -> None:
        _check_nonce(nonce)
        self._lookup = lookup
        self._own_nonce = nonce
        self._decoy_key = decoy_key
        self._known = False
        self._credential: Credential | None = None
        self._header = b""
        self._first_bare = ""
        self._server_first = b""
        self._nonce = ""
        self.username = ""

    def challenge(self, client_first: bytes) -> bytes:
        header, bare = _split_client_first(client_first)
        fields = _fields(bare.encode(), "nr")
        _check_nonce(fields["r"])
        self.username = _unescape(fields["n"])
        credential = self._lookup(self.username)
        self._known = credential is not None
        self._credential = credential or self._decoy()
        self._header = header
        self._first_bare = bare
        self._nonce = fields["r"] + self._own_nonce
        salt = b64encode(self._credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}".encode()
        return self._server_first

    def finish(self, client_final: bytes) -> bytes:
        """Checks the proof, and gives the message that shows the client who we are."""
        credential = self._credential
        if credential is None:
            raise ScramError("the exchange has not begun")
        without_proof, _, proof_text = _text(client_final).rpartition(",p=")
        fields = _fields(without_proof.encode(), "cr")
        if _unbase64(fields["c"]) != self._header or fields["r"] != self._nonce:
            raise ScramError("the final message does not belong to this exchange")
        authenticated = _authenticated(self._first_bare, self._server_first, without_proof)
        proof = _unbase64(proof_text)
        if len(proof) != len(credential.stored_key):
            raise ScramError("the proof has the wrong length")
        client_key = _xor(proof, _hmac(credential.stored_key, authenticated))
        right = hmac.compare_digest(_hash(client_key), credential.stored_key)
        if not (right and self._known):
            raise ScramError("wrong name or password")
        return b"v=" + b64encode(_hmac(credential.server_key, authenticated))

    def _decoy(self) -> Credential:
        salt = _hmac(self._decoy_key, self.username.encode())[:16]
        return Credential(salt, ITERATIONS_DEFAULT, bytes(32), bytes(32))


def _split_client_first(message: bytes) -> tuple[bytes, str]:
    """Splits off the header that says whether the client binds the exchange to its channel."""
    binding, authorization, bare = _split_header(_text(message))
    if binding.startswith("p="):
        raise ScramError("channel binding is not supported")
    if binding not in ("n", "y"):
        raise ScramError("malformed channel binding flag")
    if authorization:
        raise ScramError("acting for another name is not supported")
    return f"{binding},{authorization},".encode(), bare


def _split_header(text: str) -> tuple[str, str, str]:
    parts = text.split(",", 2)
    if len(parts) != 3:
        raise ScramError("malformed first message")
    return parts[0], parts[1], parts[2]


def _fields(message: bytes, expected: str) -> dict[str, str]:
    """The attributes of a message: the expected ones in their order, then extensions."""
    fields: dict[str, str] = {}
    names = []
    for part in _text(message).split(","):
        name, separator, value = part.partition("=")
        if not separator or len(name) != 1:
            raise ScramError("malformed attribute")
        fields.setdefault(name, value)
        names.append(name)
    if "m" in fields:
        raise ScramError("a mandatory extension is not supported")
    if not "".join(names).startswith(expected):
        raise ScramError("attributes are missing or out of order")
    return fields


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ScramError("malformed iteration count")
    iterations = int(text)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ScramError(f"iteration count {iterations} is outside {ITERATIONS_MIN}..{ITERATIONS_MAX}")
    return iterations


def _check_nonce(nonce: str) -> None:
    if not nonce or not all("!" <= char <= "~" and char != "," for char in nonce):
        raise ScramError("a nonce is printable ASCII without commas")


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramError("the message is too long")
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("the message is not UTF-8") from error


def _unbase64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError) as error:
        raise ScramError("malformed base64") from error


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    if name.count("=") != name.count("=3D") + name.count("=2C"):
        raise ScramError("malformed name")
    return saslprep(name.replace("=2C", ",").replace("=3D", "="))


def _authenticated(first_bare: str, server_first: bytes, without_proof: str) -> bytes:
    return b",".join((first_bare.encode(), server_first, without_proof.encode()))


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
