"""SCRAM-SHA-256 as the enhanced authentication of a client; the arithmetic is in braidmq.scram."""

import secrets
from collections.abc import Callable

from braidmq.scram import METHOD, ScramClient, ScramError


def _random_nonce() -> str:
    return secrets.token_urlsafe(18)


class ScramAuthenticator:
    """Give it to a client as `authenticator`. The password never goes over the wire."""

    method = METHOD

    def __init__(self, username: str, password: str, make_nonce: Callable[[], str] = _random_nonce) -> None:
        self._username = username
        self._password = password
        self._make_nonce = make_nonce
        self._exchange: ScramClient | None = None

    def begin(self) -> bytes:
        self._exchange = ScramClient(self._username, self._password, self._make_nonce())
        return self._exchange.first()

    def answer(self, challenge: bytes) -> bytes:
        return self._running().final(challenge)

    def finish(self, final: bytes) -> None:
        """Raises unless the server has shown that it knows the password too: no proof, no trust."""
        self._running().verify(final)
        self._exchange = None

    def _running(self) -> ScramClient:
        if self._exchange is None:
            raise ScramError("the exchange has not begun")
        return self._exchange
