"""The client's half of SCRAM-SHA-256, written from RFC 5802 apart from braidmq.scram, to judge the broker."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode


def digest(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, hashlib.sha256)


class Scram:
    """`first()`, then `final(challenge)`, then `proves(server_final)` says whether the server knows us."""

    def __init__(self, user: str, password: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL") -> None:
        self.password = password.encode()
        self.nonce = nonce
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.server_signature = b""

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        assert parts["r"].startswith(self.nonce)
        assert len(parts["r"]) > len(self.nonce)
        salted = hashlib.pbkdf2_hmac("sha256", self.password, b64decode(parts["s"]), int(parts["i"]))
        client_key = digest(salted, b"Client Key")
        without_proof = f"c=biws,r={parts['r']}"
        message = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        signature = digest(hashlib.sha256(client_key).digest(), message)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        self.server_signature = digest(digest(salted, b"Server Key"), message)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def proves(self, server_final: bytes) -> bool:
        return server_final == b"v=" + b64encode(self.server_signature)
