"""Asks a running broker by its admin API: the flags that say where it is, and one question at a time."""

import http.client
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter

from braidmq.errors import BraidError, ConfigError

ANSWER_S: Final = 30.0


@Parameter(name="*")
@dataclass(frozen=True)
class AdminFlags:
    """Where the admin API of a broker is."""

    port: Annotated[
        int | None,
        Parameter(
            name="--admin-port", env_var="BRAIDMQ_ADMIN_PORT", help="The port of the broker's admin API."
        ),
    ] = None
    host: Annotated[
        str, Parameter(name="--admin-host", env_var="BRAIDMQ_ADMIN_HOST", help="The host of the admin API.")
    ] = "127.0.0.1"
    token: Annotated[
        str | None,
        Parameter(name="--admin-token", env_var="BRAIDMQ_ADMIN_TOKEN", help="The admin API's token."),
    ] = None

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def connection(self, command: str, timeout_s: float) -> http.client.HTTPConnection:
        """Not yet connected. ConfigError if it isn't said where."""
        if self.port is None:
            raise ConfigError(f"{command}: --admin-port is missing: the one that the broker was started with")
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)


HERE: Final = AdminFlags()


def ask(command: str, method: str, path: str, api: AdminFlags) -> Any:
    """What the broker answers. BraidError says why it doesn't do what it is asked for."""
    connection = api.connection(command, ANSWER_S)
    try:
        connection.request(method, path, headers=api.headers)
        response = connection.getresponse()
        body = response.read()
    except TimeoutError as error:
        raise BraidError(f"{command}: {api.place} says nothing") from error
    except http.client.HTTPException as error:
        raise BraidError(f"{command}: {api.place} is no admin API: {error!r}") from error
    except OSError as error:
        raise BraidError(f"{command}: {api.place}: {error.strerror or error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise BraidError(f"{command}: {detail_of(body)}")
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BraidError(f"{command}: {api.place} is no admin API") from error


def detail_of(body: bytes) -> str:
    """Why a request was refused."""
    try:
        return str(msgspec.json.decode(body)["detail"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return "this is no admin API of a BraidMQ broker"
