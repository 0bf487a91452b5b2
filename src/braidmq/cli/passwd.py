"""`braidmq passwd`: turns a password into the line that a configuration file keeps of it."""

import getpass
import os
import sys
from typing import Annotated, Final

from cyclopts import Parameter

from braidmq.config import format_verifier
from braidmq.errors import ConfigError
from braidmq.scram import make_credential

SALT_BYTES: Final = 16


def passwd(name: Annotated[str, Parameter(metavar="NAME", help="The user's name.")]) -> None:
    """Make a SCRAM-SHA-256 verifier for a user.

    Asks for the password on a terminal, else reads it from the first line of standard input. Put the printed
    line under [auth.scram_users] in the configuration file; the password can't be read from it.
    """
    password = _ask() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ConfigError("passwd: the password is empty")
    verifier = format_verifier(make_credential(password, os.urandom(SALT_BYTES)))
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    print(f'"{quoted}" = "{verifier}"')


def _ask() -> str:
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise ConfigError("passwd: the two passwords differ")
    return password
