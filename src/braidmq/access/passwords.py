"""Users and the scrypt hashes of their passwords, one a line: `name:scrypt$n$r$p$salt$hash`.

scrypt needs 16 MiB and some 50 ms for each guess, so hashes that leak are expensive to try out. A name that
isn't known is checked against a decoy, which takes the same time.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final

import msgspec

from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.errors import ConfigError

WORK: Final = 1 << 14
BLOCKS: Final = 8
LANES: Final = 1
WORK_MAX: Final = 1 << 20
MEMORY_BYTES_MAX: Final = 256 << 20
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
PASSWORD: Final = "password"


class PasswordHash(msgspec.Struct, frozen=True):
    """What is kept of a password."""

    work: int
    blocks: int
    lanes: int
    salt: bytes
    digest: bytes

    def fits(self, password: bytes) -> bool:
        found = _scrypt(password, self.salt, self.work, self.blocks, self.lanes)
        return hmac.compare_digest(self.digest, found)

    def text(self) -> str:
        numbers = f"{self.work}${self.blocks}${self.lanes}"
        return f"scrypt${numbers}${b64encode(self.salt).decode()}${b64encode(self.digest).decode()}"


def _scrypt(password: bytes, salt: bytes, work: int, blocks: int, lanes: int) -> bytes:
    return hashlib.scrypt(
        password, salt=salt, n=work, r=blocks, p=lanes, maxmem=MEMORY_BYTES_MAX, dklen=HASH_BYTES
    )


def hash_password(password: bytes, salt: bytes, work: int = WORK) -> PasswordHash:
    return PasswordHash(work, BLOCKS, LANES, salt, _scrypt(password, salt, work, BLOCKS, LANES))


def parse_hash(text: str) -> PasswordHash:
    """The hash that `text` spells; ValueError if it is none."""
    kind, *numbers, salt, digest = text.split("$")
    work, blocks, lanes = map(int, numbers)
    costs_bytes = 128 * work * blocks
    is_power = work > 1 and work & (work - 1) == 0
    if kind != "scrypt" or not is_power or work > WORK_MAX or not 0 < lanes <= 16 or blocks < 1:
        raise ValueError("not an scrypt hash")
    plain = [b64decode(part, validate=True) for part in (salt, digest)]
    found = PasswordHash(work, blocks, lanes, *plain)
    if costs_bytes >= MEMORY_BYTES_MAX or len(found.salt) < 8 or len(found.digest) != HASH_BYTES:
        raise ValueError("not an scrypt hash")
    return found


def parse_file(text: str, path: str) -> dict[str, PasswordHash]:
    """Users by name. ConfigError names the line that is wrong; a file without users is wrong too."""
    users: dict[str, PasswordHash] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, hashed = line.rpartition(":")
        if not colon or not name:
            raise ConfigError(f"{path}:{number}: expected name:hash; `braidmq passwd {path} NAME` writes it")
        if name in users:
            raise ConfigError(f"{path}:{number}: {name!r} is there twice")
        try:
            users[name] = parse_hash(hashed.strip())
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: the hash of {name!r} is damaged") from error
    if not users:
        raise ConfigError(f"{path}: the password file names nobody; `braidmq passwd {path} NAME` adds a user")
    return users


class PasswordCheck:
    """Lets in users who know their password. A name that isn't known may be known to others."""

    def __init__(self, users: Mapping[str, PasswordHash]) -> None:
        self._users = dict(users)
        some = next(iter(self._users.values()))
        self._decoy = msgspec.structs.replace(some, digest=bytes(HASH_BYTES))

    def judge(self, claim: Claim) -> Slow | None:
        if claim.username is None:
            return None
        name, password = claim.username, claim.password or b""
        known = self._users.get(name)

        def work() -> Admitted | Refused | None:
            is_right = (known or self._decoy).fits(password)
            if known is None:
                return None
            if is_right:
                return Admitted(name, grounds=(PASSWORD, known))
            return Refused(BAD_USER_NAME_OR_PASSWORD, "the user name or the password is wrong")

        return Slow(work, PASSWORD)

    def still_holds(self, admitted: Admitted) -> bool:
        """A user who was removed, or has another password now, does not stay."""
        return admitted.user is not None and admitted.grounds == (PASSWORD, self._users.get(admitted.user))
