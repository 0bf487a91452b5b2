"""What is promised to clients, and what has to be kept first.

Changes that must survive are noted in `journal` as they happen, and whatever promises them to a client
(acknowledgements, QoS 1 and 2 deliveries) is held back in the outlets. `commit` hands the records to the store;
what was held leaves once the store has said that they are kept. One commit is under way at a time. A store that
keeps nothing beyond the process has no journal: then nothing is held and no records are made.
"""

from functools import partial


def _nobody_waits():
    """For records of which nobody has to be told that they are kept."""


cdef class Promises:
    """`released` is called after what was held for a commit has left."""

    def __init__(self, store, released):
        self.store = store
        self.journal = store.journal
        self.are_held = store.journal is not None
        self.held_outlets = []
        self.waiters = []
        self.released = released

    def commit(self):
        """Hand what is noted to the store, unless it is busy.

        While the store is busy the turns gather, and are given to it together: so clients share its cost.
        """
        if self.is_committing or not (self.held_outlets or self.waiters or self._has_noted()):
            return
        outlets, self.held_outlets = self.held_outlets, []
        waiters, self.waiters = self.waiters, []
        for outlet in outlets:
            outlet.promise_held()
        self.is_committing = True
        self.store.commit(self.journal.take() if self.journal is not None else b"",
                          partial(self._release, outlets, waiters))

    def hand_over(self):
        """Give the store all that is noted, though it may be busy: the broker stops, and nothing follows."""
        if self._has_noted():
            self.store.commit(self.journal.take(), _nobody_waits)

    def _has_noted(self):
        return self.journal is not None and len(self.journal) > 0

    def _release(self, list outlets, list waiters):
        """The store has kept what it was given."""
        self.is_committing = False
        for outlet in outlets:
            outlet.release_promised()
        for waiter in waiters:
            waiter()
        self.released()

    def when_turn_kept(self, waiter):
        """Call `waiter` when all that is noted in this turn is kept."""
        self.waiters.append(waiter)

    def when_kept(self, waiter):
        """Call `waiter` when all that is noted by now is kept."""
        self.waiters.append(waiter)
        self.commit()
