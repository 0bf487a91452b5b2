"""Password files: what is accepted, what is refused, and that names can't be told apart by the work done."""

import pytest

from braidmq.access import passwords
from braidmq.access.passwords import PasswordCheck, hash_password, parse_file, parse_hash
from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.errors import ConfigError

WORK = 1 << 4
ADA = hash_password(b"secret", b"a salt of 16 byt", WORK)


def judged(check: PasswordCheck, name: str | None, password: bytes | None) -> object:
    answer = check.judge(Claim("c", name, password, "peer"))
    return answer.work() if isinstance(answer, Slow) else answer


def test_the_right_password_lets_in_and_a_wrong_one_does_not() -> None:
    check = PasswordCheck({"ada": ADA})
    assert judged(check, "ada", b"secret") == Admitted("ada", grounds=("password", ADA))
    for wrong in (b"Secret", b"secret ", b"", None):
        answer = judged(check, "ada", wrong)
        assert isinstance(answer, Refused)
        assert answer.reason == 0x86


def test_others_decide_about_names_that_are_not_known() -> None:
    check = PasswordCheck({"ada": ADA})
    assert judged(check, "bob", b"secret") is None
    assert judged(check, None, b"secret") is None


def test_who_was_let_in_stays_as_long_as_the_file_says_the_same() -> None:
    admitted = judged(PasswordCheck({"ada": ADA}), "ada", b"secret")
    assert isinstance(admitted, Admitted)
    other = hash_password(b"changed", b"a salt of 16 byt", WORK)
    assert PasswordCheck({"ada": ADA, "bob": other}).still_holds(admitted)
    assert not PasswordCheck({"ada": other}).still_holds(admitted)
    assert not PasswordCheck({"bob": ADA}).still_holds(admitted)


def test_a_name_that_is_not_known_costs_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    real = passwords._scrypt

    def counted(password: bytes, salt: bytes, work: int, blocks: int, lanes: int) -> bytes:
        done.append((work, blocks, lanes))
        return real(password, salt, work, blocks, lanes)

    monkeypatch.setattr(passwords, "_scrypt", counted)
    check = PasswordCheck({"ada": ADA})
    for name in ("ada", "bob"):
        judged(check, name, b"wrong")
    assert done == [(WORK, 8, 1)] * 2


def test_a_hash_reads_as_it_was_written() -> None:
    assert parse_hash(ADA.text()) == ADA


def test_the_default_hash_is_memory_hard() -> None:
    assert 128 * passwords.WORK * passwords.BLOCKS >= 16 << 20


def test_a_file_names_users_and_may_have_comments() -> None:
    text = f"# people\n\nada:{ADA.text()}\nwith:colon:{ADA.text()}\n"
    assert list(parse_file(text, "f")) == ["ada", "with:colon"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: the password file names nobody"),
        ("# nobody\n", "f: the password file names nobody"),
        ("\nada\n", "f:2: expected name:hash"),
        (f":{ADA.text()}\n", "f:1: expected name:hash"),
        (f"ada:{ADA.text()}\nada:{ADA.text()}\n", "f:2: 'ada' is there twice"),
        ("ada:secret\n", "f:1: the hash of 'ada' is damaged"),
        (f"ada:{ADA.text()[:-8]}\n", "f:1: the hash of 'ada' is damaged"),
        (f"ada:{ADA.text().replace('$16$', '$17$')}\n", "f:1: the hash of 'ada' is damaged"),
        (f"ada:{ADA.text().replace('$16$', '$1073741824$')}\n", "f:1: the hash of 'ada' is damaged"),
        (f"ada:{ADA.text().replace('scrypt', 'plain')}\n", "f:1: the hash of 'ada' is damaged"),
    ],
)
def test_a_doubtful_file_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_file(text, "f")
