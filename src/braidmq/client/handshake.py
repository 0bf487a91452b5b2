"""How a connection begins: CONNECT as the options ask for it, and the AUTH exchange of MQTT 5."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from braidmq.client.errors import AuthenticationFailedError
from braidmq.client.options import PACKET_BYTES_CEILING, UINT16_CEILING, Authenticator, SessionOptions
from braidmq.client.reporting import declarations
from braidmq.errors import BraidError, ProtocolError
from braidmq.wire import NO_PROPERTIES, V5, Auth, Connack, Connect, Properties, ReasonCode

T = TypeVar("T")


class Handshake:
    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._clean_start = True
        self._renewing = False

    def connect(self, client_id: str, *, first: bool) -> Connect:
        options = self._options
        # MQTT 3 has one flag for "drop the old session" and "drop this one at the end", so it never changes.
        self._clean_start = options.clean_start and (first or options.version != V5)
        self._renewing = False
        return Connect(
            client_id,
            self._clean_start,
            options.keep_alive_s,
            options.version,
            options.will,
            options.username,
            options.password.encode() if isinstance(options.password, str) else options.password,
            self._connect_properties() if options.version == V5 else NO_PROPERTIES,
        )

    def _connect_properties(self) -> Properties:
        options = self._options
        packet_bytes = options.max_packet_bytes
        chosen = options.connect_properties
        properties = msgspec.structs.replace(
            chosen,
            user_properties=(*chosen.user_properties, *declarations(options)),
            session_expiry_s=options.session_expiry_s or None,
            receive_maximum=options.receive_maximum if options.receive_maximum < UINT16_CEILING else None,
            maximum_packet_size_bytes=packet_bytes if packet_bytes < PACKET_BYTES_CEILING else None,
            topic_alias_maximum=options.topic_alias_maximum or None,
        )
        if options.authenticator is None:
            return properties
        return msgspec.structs.replace(
            properties,
            authentication_method=options.authenticator.method,
            authentication_data=options.authenticator.begin(),
        )

    def connack(self, packet: Connack) -> None:
        """Raises if the server says yes to something that we did not ask for, or is not who it should be."""
        if packet.session_present and self._clean_start:  # [MQTT-3.2.2-4]
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "the server kept a session that it was to drop")
        if self._options.authenticator is not None:
            self._finish(self._options.authenticator, packet.properties)

    def renew(self) -> Auth:
        """The first packet of a re-authentication."""
        assert self._options.authenticator is not None
        self._renewing = True
        return self._auth(ReasonCode.RE_AUTHENTICATE, self._options.authenticator.begin())

    def auth(self, packet: Auth) -> Auth | None:
        """The answer to the server's AUTH; None when it was its last one."""
        authenticator = self._options.authenticator
        told = packet.properties
        if authenticator is None or told.authentication_method != authenticator.method:  # [MQTT-4.12.0-5]
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH with a method that we did not ask for")
        if packet.reason == ReasonCode.CONTINUE_AUTHENTICATION:
            answer = _attempt(lambda: authenticator.answer(told.authentication_data or b""))
            return self._auth(ReasonCode.CONTINUE_AUTHENTICATION, answer)
        if packet.reason != ReasonCode.SUCCESS or not self._renewing:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH must not come now")
        self._finish(authenticator, told)
        self._renewing = False
        return None

    def _finish(self, authenticator: Authenticator, told: Properties) -> None:
        _attempt(lambda: authenticator.finish(told.authentication_data or b""))

    def _auth(self, reason: int, data: bytes | None) -> Auth:
        assert self._options.authenticator is not None
        method = self._options.authenticator.method
        return Auth(reason, Properties(authentication_method=method, authentication_data=data))


def _attempt(step: Callable[[], T]) -> T:
    """Whatever an authenticator raises means that the authentication failed."""
    try:
        return step()
    except BraidError as error:
        raise AuthenticationFailedError(str(error)) from error
