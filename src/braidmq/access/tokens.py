"""JSON Web Tokens as passwords: signed by somebody whom we trust, and valid for a time.

The algorithm is fixed by the configuration; what a token says about it is only compared. A token has to have
an expiry. Costs some ten to hundred microseconds, so it is decided at once.
"""

from collections.abc import Callable
from typing import Any, Final

import jwt
import msgspec

from braidmq.access.verdicts import Admitted, Claim, Refused
from braidmq.errors import ConfigError

LEEWAY_S: Final = 10.0  # clocks differ
SECRET_BYTES_MIN: Final = 32  # as long as the hash, or the secret is the weakest part
TOKEN_START: Final = b"eyJ"  # every token begins so: it is `{"` in base64
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
TOKEN: Final = "token"


class TokenSettings(msgspec.Struct, frozen=True):
    algorithm: str
    key: bytes  # the shared secret, or a public key in PEM
    audience: str | None = None
    issuer: str | None = None
    user_claim: str = "sub"


class TokenError(Exception):
    """The token doesn't let anybody in."""


class TokenCheck:
    """Lets in clients whose password is a good token, as the user whom it names."""

    def __init__(self, settings: TokenSettings, wall_clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._wall_clock_s = wall_clock_s
        self._key = _prepared(settings)

    def judge(self, claim: Claim) -> Admitted | Refused | None:
        if claim.password is None or not claim.password.startswith(TOKEN_START):
            return None
        try:
            user, lasts_s = self._read(claim.password)
            if claim.username and claim.username != user:
                raise TokenError("the token belongs to another user")
        except TokenError as error:
            return Refused(BAD_USER_NAME_OR_PASSWORD, str(error))
        return Admitted(user, grounds=(TOKEN, self._settings), lasts_s=lasts_s)

    def still_holds(self, admitted: Admitted) -> bool:
        """With another key, or other demands, whoever came in has to show a token again."""
        return admitted.grounds == (TOKEN, self._settings)

    def _read(self, token: bytes) -> tuple[str, float]:
        """The user whom a good token names, and how many seconds it is good for."""
        settings = self._settings
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[settings.algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", *(["aud"] if settings.audience else [])],
                    "verify_exp": False,  # these three need a clock, which is an argument here
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise TokenError("the token is not accepted") from error
        lasts_s = self._lasting(claims)
        user = claims.get(settings.user_claim)
        if not isinstance(user, str) or not user:
            raise TokenError("the token names no user")
        return user, lasts_s

    def _lasting(self, claims: dict[str, Any]) -> float:
        now = self._wall_clock_s()
        lasts_s = _number(claims["exp"]) + LEEWAY_S - now
        if not lasts_s > 0:
            raise TokenError("the token has expired")
        if "nbf" in claims and not _number(claims["nbf"]) < now + LEEWAY_S:
            raise TokenError("the token is not valid yet")
        return lasts_s


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError("the token has a time that is no number")
    return float(value)


def _prepared(settings: TokenSettings) -> Any:
    if settings.algorithm == "HS256":
        if len(settings.key) < SECRET_BYTES_MIN:
            raise ConfigError(f"[auth] jwt_key_file: a secret of at least {SECRET_BYTES_MIN} bytes is needed")
        if settings.key.lstrip().startswith(b"-----BEGIN"):
            raise ConfigError("[auth] jwt_key_file: HS256 needs a shared secret, and this is a PEM file")
    elif b"PRIVATE KEY" in settings.key:
        raise ConfigError("[auth] jwt_key_file: this is a private key; the broker needs the public one")
    try:
        return jwt.get_algorithm_by_name(settings.algorithm).prepare_key(settings.key)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise ConfigError(f"[auth] jwt_key_file: not a key for {settings.algorithm}") from error
