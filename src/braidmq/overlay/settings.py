"""What an overlay node is told: sizes, times and which reading of the paper it follows."""

from dataclasses import dataclass
from enum import Enum


class Reading(Enum):
    """Whose routing tables are flexible. The paper's text says everybody's; its figures fit the
    publishers'.
    """

    EVERYBODY = "everybody"
    PUBLISHERS = "publishers"
    NOBODY = "nobody"  # SG-TBPS: plain Skip Graph tables


@dataclass(frozen=True, slots=True)
class OverlaySettings:
    entries_max: int = 60  # L, a virtual node: the paper's size, and what a plain Skip Graph needs at worst
    near_count: int = 4  # nearest on each side that are never evicted; so many neighbours may fail at once
    fan_out_max: int = 0  # children a side of one publication; 0: as many as are known
    reading: Reading = Reading.EVERYBODY
    hop_max: int = 64  # a safety net: the longest path of 5,120 subscribers has 9 hops
    ack_s: float = 0.2  # a hop is repeated after so long without an answer
    attempts_max: int = 5  # and given up after so many: at 2 % loss one in ten million is given up wrongly
    done_check_s: float = 1.0  # how often a child that hasn't finished is asked whether it is alive
    link_s: float = 5.0  # how often neighbours are asked; 0: never, where nobody can fail
    wait_s: float = 0.2  # before a neighbour that isn't ready is asked again
    search_s: float = 1.0  # a search without an answer starts again
    settle_s: float = 1.0  # after joining, before looking for more entries
    period_s: float = 30.0  # between regular explorations, give or take a fifth
    walk_max_s: float = 60.0  # longest pause between random walks of a table that isn't full
    keep_improving: int = 4  # budget of the periodic exploration of a full table
    order_hold_s: float = 0.05  # how long a message waits for an earlier one of its publisher; 0: not at all
    tombstone_s: float = 600.0  # who failed is not believed to live on hearsay for so long
    tombstones_max: int = 10_000  # the oldest is forgotten first
    remember_s: float = 600.0  # failed neighbours are looked for so long, in case the network was at fault
    publisher_idle_s: float = 600.0  # a publisher that is silent for so long leaves
    waiting_max: int = 1000  # publications that wait for a publisher to join
    origins_max: int = 1024  # publishers whose numbers a subscriber remembers
    relays_max: int = 65_536  # delegations that are remembered in case they are repeated
    relay_s: float = 60.0
