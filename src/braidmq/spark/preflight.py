"""What can be found wrong before anything starts: files that aren't there, hosts that nobody knows."""

import socket
from pathlib import Path

from braidmq.errors import ConfigError
from braidmq.spark.options import Connection


def check_connection(connection: Connection) -> None:
    """ConfigError for a missing TLS file or an unknown host; a broker that is merely away is no fault."""
    tls = connection.tls
    for option, path in {"tls.ca": tls.ca, "tls.certificate": tls.certificate, "tls.key": tls.key}.items():
        if path is not None and not Path(path).is_file():
            raise ConfigError(f"option {option}: there is no file {path}")
    for broker in connection.brokers:
        try:
            socket.getaddrinfo(broker.host, broker.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:  # anything else may pass
                raise ConfigError(f"option brokers: the host {broker.host} is unknown") from error
