"""JSON Web Tokens: good ones, and every way in which one can be bad."""

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from braidmq.access.tokens import LEEWAY_S, TokenCheck, TokenSettings
from braidmq.access.verdicts import Admitted, Claim, Refused
from braidmq.errors import ConfigError

NOW_S = 1_800_000_000.0
SECRET = b"0123456789abcdef0123456789abcdef"
RSA_KEY = rsa.generate_private_key(65_537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> bytes:
    public: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return public


def check(**settings: Any) -> TokenCheck:
    return TokenCheck(TokenSettings(**({"algorithm": "HS256", "key": SECRET} | settings)), lambda: NOW_S)


def token(key: Any = SECRET, algorithm: str = "HS256", **claims: Any) -> bytes:
    named = {"sub": "ada", "exp": NOW_S + 60} | claims
    kept = {name: value for name, value in named.items() if value is not None}
    return jwt.encode(kept, key, algorithm).encode()


def judged(checker: TokenCheck, password: bytes | None, username: str | None = None) -> object:
    return checker.judge(Claim("c", username, password, "peer"))


def user_of(verdict: object) -> str | None:
    assert isinstance(verdict, Admitted), verdict
    return verdict.user


def test_a_token_is_good_until_it_expires_and_while_its_key_is_ours() -> None:
    admitted = judged(check(), token(exp=NOW_S + 60))
    assert isinstance(admitted, Admitted)
    assert admitted.lasts_s == 60 + LEEWAY_S
    assert check().still_holds(admitted)
    assert not check(key=SECRET[::-1]).still_holds(admitted)
    assert not check(audience="somebody").still_holds(admitted)


@pytest.mark.parametrize(
    ("algorithm", "private", "public"),
    [("HS256", SECRET, SECRET), ("RS256", RSA_KEY, pem(RSA_KEY)), ("ES256", EC_KEY, pem(EC_KEY))],
)
def test_a_good_token_lets_its_user_in(algorithm: str, private: Any, public: bytes) -> None:
    checker = check(algorithm=algorithm, key=public)
    good = token(private, algorithm)
    assert user_of(judged(checker, good)) == "ada"
    assert user_of(judged(checker, good, "ada")) == "ada"
    assert isinstance(judged(checker, good, "bob"), Refused)
    head, body, signature = good.split(b".")
    forged = b".".join((head, body[:-2] + b"AA", signature))
    assert isinstance(judged(checker, forged), Refused)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 60},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": float("nan")},
        {"nbf": NOW_S + 60},
        {"nbf": "later"},
        {"sub": None},
        {"sub": ""},
        {"aud": "somebody-else"},
    ],
)
def test_a_token_of_the_wrong_time_or_for_nobody_does_not(claims: dict[str, Any]) -> None:
    assert isinstance(judged(check(), token(**claims)), Refused)


def test_audience_and_issuer_have_to_be_the_configured_ones() -> None:
    checker = check(audience="broker", issuer="us")
    assert user_of(judged(checker, token(aud=["broker", "x"], iss="us"))) == "ada"
    for claims in ({}, {"aud": "broker"}, {"iss": "us"}, {"aud": "broker", "iss": "them"}):
        assert isinstance(judged(checker, token(**claims)), Refused)


def test_the_user_may_be_named_by_another_claim() -> None:
    assert user_of(judged(check(user_claim="device"), token(device="d-1"))) == "d-1"


def test_the_algorithm_is_ours_to_choose() -> None:
    checker = check(algorithm="RS256", key=pem(RSA_KEY))
    unsigned = jwt.encode({"sub": "ada", "exp": NOW_S + 60}, None, "none").encode()
    assert isinstance(judged(checker, unsigned), Refused)
    assert isinstance(judged(checker, token()), Refused)


@pytest.mark.parametrize("password", [None, b"", b"secret", b"\xff\xfe"])
def test_what_is_no_token_is_for_others(password: bytes | None) -> None:
    assert judged(check(), password) is None


@pytest.mark.parametrize("password", [b"eyJ", b"eyJ.eyJ.x", b"eyJ\xff.a.b", token() + b"."])
def test_what_only_looks_like_a_token_is_refused(password: bytes) -> None:
    assert isinstance(judged(check(), password), Refused)


@pytest.mark.parametrize(
    ("algorithm", "key", "message"),
    [
        ("HS256", b"short", "at least 32 bytes"),
        ("HS256", pem(RSA_KEY), "needs a shared secret"),
        ("RS256", SECRET, "not a key for RS256"),
        ("RS256", pem(EC_KEY), "not a key for RS256"),
        ("ES256", pem(RSA_KEY), "not a key for ES256"),
        ("RS256", b"-----BEGIN PRIVATE KEY-----", "needs the public one"),
    ],
)
def test_a_key_that_does_not_fit_stops_the_start(algorithm: str, key: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(algorithm=algorithm, key=key)
