"""Why a connection is not read from for a while."""

from enum import Enum, auto


class Pause(Enum):
    # Parked: what was read already waits, too.
    VERDICT = auto()  # whether the client is let in is decided elsewhere
    CLAIM = auto()  # others are asked for the client's session
    REST = auto()  # the client has made much work, and the others have their turn
    STORE = auto()  # MQTT 3, which knows no Receive Maximum: what it has published is yet to be kept

    # What was read already is still handled.
    UNREAD_ANSWERS = auto()  # the client does not read what it is answered
    FULL_SUBSCRIBER = auto()  # somebody whom it publishes to does not keep up
    RATE = auto()  # the client sends faster than it may


PARKED = frozenset({Pause.VERDICT, Pause.CLAIM, Pause.REST, Pause.STORE})
