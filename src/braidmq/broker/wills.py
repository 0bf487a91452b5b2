"""What the wills of all sessions hold: a stranger's CONNECT must not fill the memory by and by."""

from braidmq.broker.session import Session
from braidmq.errors import ProtocolError
from braidmq.messages.wills import PendingWill, pending_will
from braidmq.wire import ReasonCode, Will


class Wills:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.held_bytes = 0
        self.refused = 0  # CONNECTs, because there was no room for their will

    def put(self, session: Session, will: PendingWill | None) -> None:
        """Let this be published if the client goes without a word; None: nothing."""
        self.held_bytes += _cost(will) - _cost(session.will)
        session.will = will

    def check_room(self, session: Session | None, will: Will | None) -> None:
        """Raise ProtocolError if there is no room for a will, in place of the one that the session has."""
        if will is not None:
            self.check_room_for(pending_will(will), _cost(session.will) if session is not None else 0)

    def check_room_for(self, will: PendingWill, replaced_bytes: int = 0) -> None:
        """The same for one that was a client's elsewhere."""
        if self.held_bytes - replaced_bytes + _cost(will) > self._bytes_max:
            self.refused += 1
            raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, "there is no room for another will")


def _cost(will: PendingWill | None) -> int:
    return will.cost_bytes if will is not None else 0
