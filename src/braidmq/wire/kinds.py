"""The numbers that name things on the wire: packet types and protocol levels."""

from enum import IntEnum
from typing import Final

V31: Final = 3
V311: Final = 4
V5: Final = 5


class PacketType(IntEnum):
    """The high four bits of a packet's first byte."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


# Whose properties a block holds: a packet type, or this for the will inside a CONNECT (0 is no packet type).
WILL_OWNER: Final = 0
