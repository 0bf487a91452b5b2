"""TLS for listeners: contexts from configured files, and the user whom a client's certificate names."""

import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from braidmq.config import Listener
from braidmq.errors import ConfigError

ALTERNATIVE_NAMES = ("DNS", "email", "URI")


def server_context(listener: Listener) -> ssl.SSLContext | None:
    """The context that a listener's files make; None if it has none."""
    if listener.certificate is None or listener.key is None:
        return None
    certificate, key = Path(listener.certificate), Path(listener.key)
    _refuse_unreadable("certificate", certificate)
    _refuse_unreadable("key", key)
    if key.stat().st_mode & stat.S_IROTH:
        raise ConfigError(f"[[listener]] key: everybody on this machine can read {key}; chmod o-r it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, certificate, key)
    if listener.client_ca is not None:
        _require_certificates(context, Path(listener.client_ca))
    return context


def renew(context: ssl.SSLContext, listener: Listener) -> None:
    """Show the certificate that the listener's files hold now to whoever connects from now on."""
    if listener.certificate is not None and listener.key is not None:
        _load(context, Path(listener.certificate), Path(listener.key))


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        # An empty pass phrase: a key that needs one fails instead of asking on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"[[listener]] {certificate} and {key}: {_reason(error)}") from error


def _require_certificates(context: ssl.SSLContext, authorities: Path) -> None:
    _refuse_unreadable("client_ca", authorities)
    try:
        context.load_verify_locations(authorities)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"[[listener]] client_ca {authorities}: {_reason(error)}") from error
    context.verify_mode = ssl.CERT_REQUIRED


def _refuse_unreadable(key: str, path: Path) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        raise ConfigError(f"[[listener]] {key}: {path}: {error.strerror}") from error


def _reason(error: Exception) -> str:
    words = getattr(error, "reason", None)
    return words.replace("_", " ").lower() if words else "not a PEM file that fits"


def user_of(certificate: Mapping[str, Any], source: str) -> str | None:
    """The user whom a verified certificate names, in the place that the listener looks at."""
    if source == "alternative_name":
        names = certificate.get("subjectAltName", ())
        return next((value for kind, value in names if kind in ALTERNATIVE_NAMES and value), None)
    parts = [part for relative in certificate.get("subject", ()) for part in relative]
    common_names = [value for kind, value in parts if kind == "commonName" and value]
    # Two common names would leave open whom the authority meant.
    return common_names[0] if len(common_names) == 1 else None
