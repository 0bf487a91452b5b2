"""How much of what may be repeated a packet may hold: each costs an object, and is small in the packet."""

from typing import Final, NamedTuple

from braidmq.errors import ProtocolError
from braidmq.wire.reasons import ReasonCode


class Caps(NamedTuple):
    """What a decoder reads before it gives a packet up."""

    user_properties_max: int  # in a packet, and in the will of a CONNECT; subscription identifiers likewise
    filters_max: int  # in a SUBSCRIBE or UNSUBSCRIBE

    def check_properties(self, count: int) -> None:
        """Raise ProtocolError if `count` of them are as many as there may be."""
        if count >= self.user_properties_max:
            raise ProtocolError(
                ReasonCode.QUOTA_EXCEEDED, f"more than {self.user_properties_max} user properties"
            )

    def check_filters(self, count: int) -> None:
        if count >= self.filters_max:
            raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, f"more than {self.filters_max} topic filters")


# For who has to take what others publish, a client: more than fit a packet of 1 MiB.
GENEROUS: Final = Caps(user_properties_max=250_000, filters_max=250_000)
