"""TLS from whatever the application has: a ready context, paths, or just the wish for it."""

import ssl

from braidmq.client.options import TlsFiles
from braidmq.errors import ConfigError


def tls_context(tls: ssl.SSLContext | TlsFiles | bool) -> ssl.SSLContext | None:
    """None: no TLS."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    if tls is False:
        return None
    files = TlsFiles() if tls is True else tls
    try:
        context = ssl.create_default_context(cafile=files.ca)
        if files.certificate is not None:
            context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(path for path in (files.ca, files.certificate, files.key) if path)
        raise ConfigError(f"TLS files ({named}): {error}") from error
    if not files.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
