"""Certificates for tests: an authority, a server and clients, written as files."""

from pathlib import Path
from typing import NamedTuple

import trustme


class Files(NamedTuple):
    certificate: Path
    key: Path


class Authority:
    """An authority of our own, whose certificate is the file `path`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "ca.pem"
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(self.path)

    def issue(self, name: str, *identities: str, common_name: str | None = None) -> Files:
        """A certificate and its key, in files that begin with `name`."""
        issued = self._authority.issue_cert(*identities, common_name=common_name)
        files = Files(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        files.key.touch(mode=0o600)
        issued.private_key_pem.write_to_path(files.key)
        issued.cert_chain_pems[0].write_to_path(files.certificate)
        return files
