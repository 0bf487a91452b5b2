"""TLS for listeners and links: contexts from configured files, and the user whom a certificate names."""

import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from braidmq.config import ClusterConfig, Listener
from braidmq.errors import ConfigError

ALTERNATIVE_NAMES = ("DNS", "email", "URI")

LinkContexts = tuple[ssl.SSLContext, ssl.SSLContext]  # of who accepts, and of who dials


def server_context(listener: Listener) -> ssl.SSLContext | None:
    """The context that a listener's files make; None if it has none."""
    if listener.certificate is None or listener.key is None:
        return None
    context = _context("[[listener]]", ssl.PROTOCOL_TLS_SERVER, listener.certificate, listener.key)
    if listener.client_ca is not None:
        _require_certificates("[[listener]] client_ca", context, Path(listener.client_ca))
    return context


def link_contexts(cluster: ClusterConfig) -> LinkContexts | None:
    """The contexts of links between nodes, for who accepts and who dials; None if they are plain.

    Both show a certificate. Host names aren't compared: nodes go by many addresses, and the authority is the
    cluster's own.
    """
    if cluster.certificate is None or cluster.key is None or cluster.ca is None:
        return None
    contexts = []
    for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = _context("[cluster]", side, cluster.certificate, cluster.key)
        context.check_hostname = False
        _require_certificates("[cluster] ca", context, Path(cluster.ca))
        contexts.append(context)
    return contexts[0], contexts[1]


def renew(context: ssl.SSLContext, owner: Listener | ClusterConfig) -> None:
    """Show the certificate that the owner's files hold now to whoever connects from now on."""
    if owner.certificate is not None and owner.key is not None:
        where = "[[listener]]" if isinstance(owner, Listener) else "[cluster]"
        _load(where, context, Path(owner.certificate), Path(owner.key))


def _context(where: str, side: Any, certificate: str, key: str) -> ssl.SSLContext:
    _refuse_unreadable(f"{where} certificate", Path(certificate))
    _refuse_unreadable(f"{where} key", Path(key))
    if Path(key).stat().st_mode & stat.S_IROTH:
        raise ConfigError(f"{where} key: everybody on this machine can read {key}; chmod o-r it")
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(where, context, Path(certificate), Path(key))
    return context


def _load(where: str, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        # An empty pass phrase: a key that needs one fails instead of asking on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{where} {certificate} and {key}: {_reason(error)}") from error


def _require_certificates(where: str, context: ssl.SSLContext, authorities: Path) -> None:
    _refuse_unreadable(where, authorities)
    try:
        context.load_verify_locations(authorities)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{where} {authorities}: {_reason(error)}") from error
    context.verify_mode = ssl.CERT_REQUIRED


def _refuse_unreadable(where: str, path: Path) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        raise ConfigError(f"{where}: {path}: {error.strerror}") from error


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
