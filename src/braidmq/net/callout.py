"""Asks an HTTP service whether a client may come in. Whatever goes wrong, it may not.

The question is a POST of `{"client_id", "username", "password", "address"}`; the answer is JSON,
`{"result": "allow"}`, `"deny"` or `"ignore"` (the next way to authenticate is asked), with a `"user"` if the
client is to be known by another name than it gave. `work` waits, so it runs in a thread.
"""

from http.client import HTTPException
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.net.timed_http import post

ANSWER_BYTES_MAX: Final = 64 * 1024
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
SERVER_UNAVAILABLE: Final = 0x88
HTTP: Final = "http"


class Answer(msgspec.Struct, frozen=True):
    result: Literal["allow", "deny", "ignore"]
    user: str | None = None


class HttpCallout:
    """Lets in clients whom an HTTP service lets in."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = urlsplit(url)
        self._timeout_s = timeout_s

    def judge(self, claim: Claim) -> Slow | None:
        if claim.username is None and claim.password is None:
            return None
        return Slow(lambda: self._ask(claim), "callout")

    def still_holds(self, admitted: Admitted) -> bool:
        """The service isn't asked again: who came in by its word stays while there is such a service."""
        return admitted.grounds == (HTTP,)

    def _ask(self, claim: Claim) -> Admitted | Refused | None:
        try:
            password = claim.password.decode() if claim.password is not None else None
        except UnicodeDecodeError:
            return Refused(BAD_USER_NAME_OR_PASSWORD, "the password is no UTF-8 text")
        question = {
            "client_id": claim.client_id,
            "username": claim.username,
            "password": password,
            "address": claim.peer,
        }
        try:
            body = msgspec.json.encode(question)
            answer = msgspec.json.decode(
                post(self._url, body, self._timeout_s, ANSWER_BYTES_MAX), type=Answer
            )
        except (OSError, HTTPException, msgspec.DecodeError):
            return Refused(SERVER_UNAVAILABLE, "the authentication service gave no answer")
        match answer.result:
            case "allow":
                return Admitted(answer.user or claim.username, grounds=(HTTP,))
            case "deny":
                return Refused(BAD_USER_NAME_OR_PASSWORD, "the user name or the password is wrong")
        return None
