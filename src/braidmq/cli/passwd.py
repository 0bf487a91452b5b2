"""`braidmq passwd`: keeps a password in a password file, or makes a line of the configuration of it."""

import getpass
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from braidmq.access.passwords import SALT_BYTES, PasswordHash, hash_password, parse_file
from braidmq.config import format_verifier
from braidmq.errors import ConfigError
from braidmq.scram import make_credential

FILE_MODE: Final = 0o600


def passwd(
    file: Annotated[str, Parameter(metavar="[FILE]", help="The password file; made if it is absent.")],
    name: Annotated[str | None, Parameter(metavar="NAME", help="The user's name.")] = None,
    *,
    delete: Annotated[bool, Parameter(negative=(), help="Remove the user from the file.")] = False,
) -> None:
    """Keep a user's password in a password file, or print a SCRAM-SHA-256 verifier.

    Asks for the password on a terminal, else reads it from the first line of standard input. With FILE and
    NAME the user is added to the file that [auth] password_file names, or gets a new password. With NAME
    alone a line for [auth.scram_users] in the configuration file is printed. The password can't be read from
    either.
    """
    if name is None:
        print(_scram_line(file, _password()))
        return
    path = Path(file)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    users = parse_file(text, file) if text.strip() else {}
    if delete:
        if users.pop(name, None) is None:
            raise ConfigError(f"passwd: {file} has no user {name!r}")
    else:
        _refuse_odd(name)
        users[name] = hash_password(_password().encode(), os.urandom(SALT_BYTES))
    _write(path, users)


def _refuse_odd(name: str) -> None:
    if not name or name.startswith("#") or not name.isprintable() or name != name.strip():
        raise ConfigError(f"passwd: {name!r} can't be the name of a user in a password file")


def _scram_line(name: str, password: str) -> str:
    verifier = format_verifier(make_credential(password, os.urandom(SALT_BYTES)))
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" = "{verifier}"'


def _write(path: Path, users: dict[str, PasswordHash]) -> None:
    """In one step: a broker that reloads never sees half of it."""
    text = "".join(f"{name}:{hashed.text()}\n" for name, hashed in users.items())
    mode = path.stat().st_mode if path.exists() else FILE_MODE
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as fresh:
        fresh.write(text)
    Path(fresh.name).chmod(mode)
    Path(fresh.name).replace(path)


def _password() -> str:
    password = _ask() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ConfigError("passwd: the password is empty")
    return password


def _ask() -> str:
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise ConfigError("passwd: the two passwords differ")
    return password
