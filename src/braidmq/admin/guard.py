"""Who may call the admin API: whoever has the token or, where there is none, programs of this machine.

A web page in a browser of this machine is no such program. It can't set the Authorization header unasked; and
without a token it is told by the host it asked for (another name that leads here), by its Origin, or, where a
browser sends none (a picture whose address is ours), by what it says of where the request comes from.
"""

import hmac
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
OWN_SITES: Final = frozenset({"none", "same-origin"})  # typed into the browser, or asked by a page of ours


class Denial(NamedTuple):
    status: int
    detail: str


def guard(token: str | None) -> Callable[[str, dict[str, str]], Denial | None]:
    """The check of (method, headers): None if the call may pass. Header names are lower case."""
    if token is None:
        return _from_this_machine
    expected = f"Bearer {token}".encode()

    def has_token(method: str, headers: dict[str, str]) -> Denial | None:
        # Takes the same time wherever the first difference is.
        if hmac.compare_digest(headers.get("authorization", "").encode(), expected):
            return None
        return Denial(401, "the token is missing or wrong: Authorization: Bearer TOKEN")

    return has_token


def _from_this_machine(method: str, headers: dict[str, str]) -> Denial | None:
    host = headers.get("host", "")
    if not _is_loopback(host):
        return Denial(403, f"{host!r} is no loopback address; set a token to be called by other names")
    if headers.get("sec-fetch-site", "none") not in OWN_SITES or not _is_of(headers.get("referer"), host):
        return Denial(403, "not for other web pages; set a token for that")
    origin = headers.get("origin")
    if origin is not None and (method not in SAFE_METHODS or urlsplit(origin).netloc != host):
        return Denial(403, "not for web pages; set a token for that")
    return None


def _is_of(referer: str | None, host: str) -> bool:
    """Whether a page that led here is our own; browsers that don't know Sec-Fetch-Site tell it."""
    try:
        return referer is None or urlsplit(referer).netloc == host
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
