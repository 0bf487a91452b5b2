"""MQTT clients: asyncio and blocking, over one pure session."""

from braidmq.client._batch import Message, MessageBatch, properties_of
from braidmq.client.aio import Client
from braidmq.client.blocking import BlockingClient
from braidmq.client.calls import PublishResult
from braidmq.client.errors import (
    AuthenticationFailedError,
    ClientClosedError,
    ClientError,
    ConnectFailedError,
    ConnectionLostError,
    ConnectRefusedError,
    LimitExceededError,
    NotConnectedError,
    PublishRefusedError,
    ReasonError,
    RequestTimeoutError,
    ServerDisconnectedError,
    SessionLostError,
    SubscribeRefusedError,
    UnsubscribeRefusedError,
)
from braidmq.client.options import Authenticator, Options, StatusReporting, TlsFiles
from braidmq.client.patience import publish_patiently
from braidmq.client.scram import ScramAuthenticator

__all__ = [
    "AuthenticationFailedError",
    "Authenticator",
    "BlockingClient",
    "Client",
    "ClientClosedError",
    "ClientError",
    "ConnectFailedError",
    "ConnectRefusedError",
    "ConnectionLostError",
    "LimitExceededError",
    "Message",
    "MessageBatch",
    "NotConnectedError",
    "Options",
    "PublishRefusedError",
    "PublishResult",
    "ReasonError",
    "RequestTimeoutError",
    "ScramAuthenticator",
    "ServerDisconnectedError",
    "SessionLostError",
    "StatusReporting",
    "SubscribeRefusedError",
    "TlsFiles",
    "UnsubscribeRefusedError",
    "properties_of",
    "publish_patiently",
]
