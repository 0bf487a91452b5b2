"""Reads the options of `format("mqtt")`: typed, whatever their case, each fault refused by name.

`OptionReader` is one reading of one set of options. Every option that is asked for is ticked off, and
`finish` refuses what nobody asked for, so that a misspelt option can't be silently ignored.
`read_connection` is what source and sink have in common; what only one of them has is in
`source_options.py` and with the sink. Nothing here touches the network or the disk.
"""

import difflib
import re
from collections.abc import Mapping, Sequence

import msgspec

from braidmq.client.addresses import PORT, TLS_PORT, Address, parse_address
from braidmq.client.options import OptionChoices, TlsFiles
from braidmq.config.toml import nearest
from braidmq.errors import ConfigError

DURATION_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
SIZE_UNITS_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
TRUTHS = {"true": True, "false": False}
INT64_CEILING = (1 << 63) - 1
MISSPELT_FROM = 0.8  # how alike two names must be


class OptionReader:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value).strip() for name, value in options.items()}
        self._spelling: dict[str, str] = {}  # lower case -> as we write it

    def has(self, name: str) -> bool:
        self._spelling[name.lower()] = name
        return name.lower() in self._given

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._given[name.lower()] if self.has(name) else default

    def required(self, name: str, *aliases: str) -> str:
        given = [candidate for candidate in (name, *aliases) if self.has(candidate)]
        if len(given) > 1:
            raise ConfigError(f"options {given[0]} and {given[1]} mean the same: give one of them")
        value = self.text(given[0]) if given else None
        if not value:
            near = difflib.get_close_matches(name.lower(), self._given, 1, MISSPELT_FROM)
            hint = f"; did you mean it by {near[0]}?" if near and not given else ""
            raise ConfigError(f"option {name} is required{hint}")
        return value

    def integer(self, name: str, default: int, least: int, most: int = INT64_CEILING) -> int:
        value = self.optional_integer(name, least, most)
        return default if value is None else value

    def optional_integer(self, name: str, least: int, most: int = INT64_CEILING) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"-?\d+", text) or not least <= int(text) <= most:
            raise ConfigError(f"option {name} must be a whole number from {least} to {most}, not {text!r}")
        return int(text)

    def boolean(self, name: str, default: bool) -> bool:
        return TRUTHS[self.choice(name, str(default).lower(), tuple(TRUTHS))]

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise ConfigError(f"option {name} must be one of {', '.join(choices)}, not {value!r}")
        return value

    def duration_s(self, name: str, default_s: float, least_s: float = 0.0, most_s: float = 1e9) -> float:
        """`500ms`, `30s`, `5m`, `2h`, `7d`; a bare number is seconds."""
        text = self.text(name)
        if text is None:
            return default_s
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", text.lower())
        value_s = float(found[1]) * DURATION_UNITS_S[found[2] or "s"] if found else -1.0
        if not found or not least_s <= value_s <= most_s:
            raise ConfigError(
                f"option {name} must be a duration such as 500ms, 30s or 7d, from {least_s:g} to {most_s:g} "
                f"seconds, not {text!r}"
            )
        return value_s

    def size_bytes(self, name: str, default_bytes: int | None, least_bytes: int = 1) -> int | None:
        """`64m`, `1g`; a bare number is bytes."""
        text = self.text(name)
        if text is None:
            return default_bytes
        found = re.fullmatch(r"(\d+)\s*([bkmgt])?(?:i?b)?", text.lower())
        value = int(found[1]) * SIZE_UNITS_BYTES[found[2] or "b"] if found else 0
        if not least_bytes <= value <= INT64_CEILING:
            raise ConfigError(
                f"option {name} must be a size such as 64m or 1g, at least {least_bytes} bytes, not {text!r}"
            )
        return value

    def words(self, name: str, *aliases: str) -> tuple[str, ...]:
        """A list with commas between; each word once, in the order given."""
        words = tuple(dict.fromkeys(word.strip() for word in self.required(name, *aliases).split(",")))
        if "" in words:
            raise ConfigError(f"option {name} has an empty entry")
        return words

    def refuse(self, names: Sequence[str], why: str) -> None:
        """These options make no sense here."""
        for name in names:
            if self.has(name):
                raise ConfigError(f"option {name} {why}")

    def finish(self) -> None:
        unknown = sorted(set(self._given) - set(self._spelling))
        if not unknown:
            return
        raise ConfigError(f"unknown option {unknown[0]}{nearest(unknown[0], list(self._spelling.values()))}")


class BrokerAddress(msgspec.Struct, frozen=True):
    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return str(Address(self.host, self.port))


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the brokers: the part that source and sink share."""

    brokers: tuple[BrokerAddress, ...]
    username: str | None = None
    password: str | None = None
    tls: TlsFiles = TlsFiles()
    keep_alive_s: int = 60

    def client_choices(self, broker: BrokerAddress) -> OptionChoices:
        """The keywords of a client that connects to one of the brokers."""
        return {
            "username": self.username,
            "password": self.password,
            "tls": self.tls if broker.tls else False,
            "keep_alive_s": self.keep_alive_s,
        }


def read_connection(options: OptionReader) -> Connection:
    tls, tls_wanted = _read_tls(options)
    username = options.text("username")
    if options.has("password") and username is None:
        raise ConfigError("option password needs option username")
    brokers = [_read_broker(text, tls_wanted) for text in options.words("brokers", "brokerUrl")]
    if len(set(map(str, brokers))) < len(brokers):
        raise ConfigError("option brokers names one broker twice")
    if tls_wanted is None and _tls_details(tls) and not any(broker.tls for broker in brokers):
        raise ConfigError("tls.* options are given, but no broker is reached by TLS: give tls=true or mqtts://")
    return Connection(
        brokers=tuple(brokers),
        username=username,
        password=options.text("password"),
        tls=tls,
        keep_alive_s=round(options.duration_s("keepAlive", 60, 0, 65_535)),
    )


def _read_tls(options: OptionReader) -> tuple[TlsFiles, bool | None]:
    files = TlsFiles(
        ca=options.text("tls.ca"),
        certificate=options.text("tls.certificate"),
        key=options.text("tls.key"),
        verify=options.boolean("tls.verify", True),
    )
    wanted = options.boolean("tls", False) if options.has("tls") else None
    if wanted is False and _tls_details(files):
        raise ConfigError("option tls is false, but tls.* options are given")
    if files.key and not files.certificate:
        raise ConfigError("option tls.key needs option tls.certificate")
    return files, wanted


def _tls_details(files: TlsFiles) -> bool:
    return files != TlsFiles()


def _read_broker(text: str, tls_wanted: bool | None) -> BrokerAddress:
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme == "tcp":  # as other connectors spell it
        text = "mqtt" + text[len("tcp") :]
    contradiction = {"mqtts": tls_wanted is False, "mqtt": tls_wanted is True, "tcp": tls_wanted is True}
    if contradiction.get(scheme, False):
        raise ConfigError(f"option brokers: {text!r} contradicts tls={str(tls_wanted).lower()}")
    tls = scheme == "mqtts" or bool(tls_wanted)
    try:
        address = parse_address(text, TLS_PORT if tls else PORT)
    except ConfigError as error:
        raise ConfigError(f"option brokers: {error}") from error
    return BrokerAddress(address.host, address.port, tls)
