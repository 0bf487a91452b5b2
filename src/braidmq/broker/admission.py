"""How a client gets in: its CONNECT, the verdict on it, the claim on its session; and authentication again.

    CONNECT ──▶ judged ──▶ admitted ──▶ claimed ──▶ established
                 │  ▲ AUTH, or a decision made elsewhere
                 ▼  │
               challenged

Whatever takes time parks the connection meanwhile; the time for CONNECT runs on. A client that is not let in
is a ProtocolError, whose reason the connection tells.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from braidmq.access.verdicts import Admitted, Challenge, Pending, Refused, Verdict, Visitor
from braidmq.broker.access import Errand, Exchange
from braidmq.broker.events import Authenticated, ConnectReceived
from braidmq.broker.pauses import Pause
from braidmq.errors import ProtocolError
from braidmq.timing.timers import Timer
from braidmq.wire import NO_PROPERTIES, Auth, Connect, Properties, ReasonCode

if TYPE_CHECKING:
    from braidmq.broker.connection import Connection

NO_LONGER: Final = "not let in any more: the configuration has changed"


class SessionClaim(msgspec.Struct, frozen=True):
    """Who wants to use which session here."""

    client_id: str
    user: str | None
    clean_start: bool


class Claims(Protocol):
    """Who is asked before a session is used here, since others may have it."""

    def ask(
        self, claim: SessionClaim, answered: Callable[[Refused | None], None]
    ) -> Callable[[], None] | None:
        """Ask for a session. `answered` is called once, now or later: with None it may be used here.

        What is returned, if anything, takes the question back when the client has gone meanwhile.
        """


class Admission:
    """One connection's way in, and its grounds to stay."""

    __slots__ = (
        "_admitted",
        "_connect",
        "_connection",
        "_exchange",
        "_known_as",
        "_method",
        "_stay_timer",
        "_visitor",
        "_withdraw",
    )

    def __init__(self, connection: "Connection", visitor: Visitor) -> None:
        self._connection = connection
        self._visitor = visitor
        # Until the client is in, and no longer: it may be large, and has a password in it.
        self._connect: Connect | None = None
        self._method: str | None = None
        self._known_as: Connect | None = None  # what is left of the CONNECT for authentication again
        self._exchange: Exchange | None = None
        self._admitted = Admitted()
        self._stay_timer: Timer | None = None
        self._withdraw: Callable[[], None] | None = None

    # ---- the first time ------------------------------------------------------------------------------

    def begin(self, packet: Connect) -> None:
        """The client has sent its CONNECT."""
        connection, broker = self._connection, self._connection.broker
        self._connect = packet
        if broker.hub.watching.audience is not None:
            broker.hub.watching.audience.tell(
                ConnectReceived(
                    client_id=packet.client_id,
                    peer=connection.peer,
                    protocol=packet.version,
                    username=packet.username,
                    clean_start=packet.clean_start,
                    keep_alive_s=packet.keep_alive_s,
                )
            )
        broker.check_connect(packet)
        self._method = packet.properties.authentication_method
        if self._method is None:
            self._judge(broker.gate.admit(packet, self._visitor))
            return
        self._exchange = broker.gate.exchange(self._method, packet, self._visitor)
        if self._exchange is None:
            raise ProtocolError(
                ReasonCode.BAD_AUTHENTICATION_METHOD, f"no authentication method {self._method!r}"
            )
        self._judge(self._exchange.step(packet.properties.authentication_data))

    def _judge(self, verdict: Verdict) -> None:
        """Go on as the gate has decided, in the first authentication or a later one."""
        match verdict:
            case Admitted():
                if not self._connection.broker.gate.still_admits(verdict):  # a reload came between
                    raise ProtocolError(ReasonCode.NOT_AUTHORIZED, NO_LONGER)
                if self._connect is None:
                    self._readmit(verdict)
                else:
                    self._admit(verdict, self._connect)
            case Challenge(data=data):
                challenge = Auth(ReasonCode.CONTINUE_AUTHENTICATION, self._auth_properties(data))
                self._connection.send(challenge)
            case Pending():
                self._await_verdict(verdict)
            case Refused(reason=reason, detail=detail):
                raise ProtocolError(reason, detail)

    def _await_verdict(self, pending: Pending) -> None:
        connection = self._connection
        connection.park(Pause.VERDICT)
        about = self._connect or self._known_as
        name = about.username or "" if about is not None else ""
        errand = Errand(pending, connection.peer, name, lambda: not connection.is_finished, self._decided)
        if connection.broker.run_aside is None:
            connection.shell.defer(errand.run)
        else:
            connection.broker.run_aside(errand)

    def _decided(self, verdict: Admitted | Refused) -> None:
        self._connection.unpark(Pause.VERDICT, lambda: self._judge(verdict))

    def _admit(self, admitted: Admitted, connect: Connect) -> None:
        connection, claims = self._connection, self._connection.broker.claims
        self._exchange = None
        connection.user = admitted.user
        claim = connection.broker.prepare(connection, connect, admitted.data)
        if claims is None:
            self._establish(admitted, connect)
            return
        connection.park(Pause.CLAIM)
        self._withdraw = claims.ask(claim, lambda refused: self._answered(refused, admitted, connect))
        if not connection.is_parked_for(Pause.CLAIM):  # answered at once
            self._withdraw = None

    def _answered(self, refused: Refused | None, admitted: Admitted, connect: Connect) -> None:
        self._withdraw = None
        verdict = refused or admitted

        def settle() -> None:
            if isinstance(verdict, Refused) or not self._connection.broker.gate.still_admits(verdict):
                self._judge(verdict)  # which says no
            else:
                self._establish(verdict, connect)

        self._connection.unpark(Pause.CLAIM, settle)

    def _establish(self, admitted: Admitted, connect: Connect) -> None:
        self._connection.broker.establish(self._connection, connect, admitted.data)
        self._connect = None
        if self._method is not None:
            self._known_as = msgspec.structs.replace(
                connect, will=None, password=None, properties=NO_PROPERTIES
            )
        self._may_stay(admitted)
        self._connection.opened()

    # ---- again ---------------------------------------------------------------------------------------

    def authenticate(self, packet: Auth) -> None:
        """The client goes on with an authentication, or begins it again."""
        if packet.properties.authentication_method != self._method:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH changes the method")  # [MQTT-4.12.0-5]
        if packet.reason == ReasonCode.RE_AUTHENTICATE and self._known_as is not None:
            gate = self._connection.broker.gate
            self._exchange = gate.exchange(self._method or "", self._known_as, self._visitor)
        elif packet.reason != ReasonCode.CONTINUE_AUTHENTICATION:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH has a reason that only a server gives")
        if self._exchange is None:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH, and nothing was asked")
        self._judge(self._exchange.step(packet.properties.authentication_data))

    def _readmit(self, admitted: Admitted) -> None:
        connection = self._connection
        if admitted.user != connection.user:
            raise ProtocolError(ReasonCode.NOT_AUTHORIZED, "re-authentication as somebody else")
        self._exchange = None
        self._may_stay(admitted)
        if connection.hub.watching.audience is not None:
            client_id = connection.session.client_id
            again = Authenticated(client_id=client_id, peer=connection.peer, user=connection.user)
            connection.hub.watching.audience.tell(again)
        connection.send(Auth(ReasonCode.SUCCESS, self._auth_properties(admitted.data)))

    def _auth_properties(self, data: bytes | None) -> Properties:
        return Properties(authentication_method=self._method, authentication_data=data)

    # ---- staying -------------------------------------------------------------------------------------

    def _may_stay(self, admitted: Admitted) -> None:
        """For as long as it was let in for: until its token expires, or a reload ends the grounds for it."""
        self._admitted = admitted
        timers, now = self._connection.broker.timers, self._connection.hub.now
        if self._stay_timer is not None:
            self._stay_timer.cancel()
            self._stay_timer = None
        if admitted.lasts_s is not None:
            self._stay_timer = timers.set(now + admitted.lasts_s, self._outstayed)

    def _outstayed(self) -> None:
        self._connection.end(ReasonCode.MAXIMUM_CONNECT_TIME, "what it was let in with has expired")

    def still_holds(self) -> bool:
        """Whether the gate, perhaps another one than then, would let the client in today."""
        return self._connection.broker.gate.still_admits(self._admitted)

    def over(self) -> None:
        """The connection is over."""
        if self._stay_timer is not None:
            self._stay_timer.cancel()
        if self._withdraw is not None:
            self._withdraw()
        self._withdraw = self._exchange = self._connect = None
