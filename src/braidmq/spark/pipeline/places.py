"""Where a pipeline keeps its files: a directory on any file system that pyarrow reaches.

Local paths, `file://`, `s3://` and `hdfs://` are opened the same way on the driver and on executors. A small
file is replaced as a whole or not at all (written beside and renamed), where renaming is atomic. An object
store finds its credentials and its address in the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so
on), which is the same for pyarrow and for Delta.
"""

from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec
import pyarrow.fs as pafs

from braidmq.errors import ConfigError

S = TypeVar("S", bound=msgspec.Struct)


class Place(NamedTuple):
    """A directory and the file system that it is on; `uri` is how Spark is told of it."""

    files: Any
    path: str
    uri: str

    def at(self, *names: str) -> "Place":
        below = "/".join(names)
        return Place(self.files, f"{self.path}/{below}", f"{self.uri}/{below}")

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file://")

    def move_to(self, target: "Place") -> None:
        """A file; between two file systems it is copied, and then deleted here."""
        if urlsplit(self.uri)[:2] == urlsplit(target.uri)[:2]:
            self.files.move(self.path, target.path)
            return
        pafs.copy_files(
            self.path, target.path, source_filesystem=self.files, destination_filesystem=target.files
        )
        self.files.delete_file(self.path)

    def make(self) -> "Place":
        self.files.create_dir(self.path, recursive=True)
        return self

    def exists(self) -> bool:
        found: bool = self.files.get_file_info(self.path).type != pafs.FileType.NotFound
        return found

    def list(self, *, recursive: bool = False) -> list[Any]:
        """The files below, by path; none when it isn't there."""
        selector = pafs.FileSelector(self.path, allow_not_found=True, recursive=recursive)
        found = self.files.get_file_info(selector)
        return sorted((info for info in found if info.is_file), key=lambda info: str(info.path))

    def delete(self) -> None:
        """A directory with all that is in it, or nothing if it isn't there."""
        self.files.delete_dir_contents(self.path, missing_dir_ok=True)

    def write_struct(self, value: msgspec.Struct) -> None:
        beside = f"{self.path}.tmp"
        with self.files.open_output_stream(beside) as stream:
            stream.write(msgspec.json.encode(value))
        self.files.move(beside, self.path)

    def read_struct(self, type: type[S]) -> S | None:
        try:
            with self.files.open_input_stream(self.path) as stream:
                return msgspec.json.decode(stream.read(), type=type)
        except FileNotFoundError:
            return None


def open_place(location: str) -> Place:
    """The directory at a location."""
    try:
        files, path = pafs.FileSystem.from_uri(location)
    except (ValueError, OSError) as error:
        raise ConfigError(f"location {location!r}: {error}") from error
    return Place(files, path, location.rstrip("/"))
