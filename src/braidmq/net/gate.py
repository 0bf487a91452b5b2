"""The gate that a configuration asks for: reads the files it names, and refuses those that are doubtful."""

import stat
import time
from collections.abc import Iterator
from pathlib import Path

from braidmq.access.passwords import PasswordCheck, parse_file
from braidmq.access.rules import Rules, parse_rules
from braidmq.access.verdicts import Authenticator
from braidmq.broker.access import BuiltInGate
from braidmq.config import AclConfig, AuthConfig, Config
from braidmq.config.toml import utf8_text
from braidmq.errors import ConfigError
from braidmq.net.callout import HttpCallout
from braidmq.net.plugins import load_policies


def make_gate(config: Config) -> BuiltInGate:
    """ConfigError names the file, and the line if there is one, that is wrong."""
    return BuiltInGate(
        config.auth.credentials(),
        policies=load_policies(config.auth.policies),
        authenticators=tuple(_authenticators(config.auth)),
        rules=_rules(config.acl),
        allow_anonymous=config.auth.lets_strangers_in,
    )


def _rules(acl: AclConfig) -> Rules | None:
    if acl.file is None:
        return None
    return parse_rules(read_text("[acl] file", Path(acl.file)), acl.file)


def _authenticators(auth: AuthConfig) -> Iterator[Authenticator]:
    """In the order in which they are asked: the cheap one first, the one that leaves the house last."""
    if auth.jwt_key_file is not None:
        yield _token_check(auth, Path(auth.jwt_key_file))
    if auth.password_file is not None:
        path = Path(auth.password_file)
        yield PasswordCheck(parse_file(read_text("[auth] password_file", path), str(path)))
    if auth.http_url is not None:
        yield HttpCallout(auth.http_url, auth.http_timeout_ms / 1000)


def _token_check(auth: AuthConfig, path: Path) -> Authenticator:
    # The library behind it takes a tenth of a second to load, which only those pay who have tokens.
    from braidmq.access.tokens import TokenCheck, TokenSettings

    key = _read("[auth] jwt_key_file", path)
    if auth.jwt_algorithm == "HS256":
        key = key.rstrip(b"\r\n")
        if path.stat().st_mode & stat.S_IROTH:
            raise ConfigError(
                f"[auth] jwt_key_file: everybody on this machine can read the secret {path}; chmod o-r it"
            )
    settings = TokenSettings(
        auth.jwt_algorithm, key, auth.jwt_audience, auth.jwt_issuer, auth.jwt_user_claim
    )
    return TokenCheck(settings, time.time)


def read_text(called: str, path: Path) -> str:
    return utf8_text(_read(called, path), str(path))


def _read(called: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{called}: {path}: {error.strerror}") from error
