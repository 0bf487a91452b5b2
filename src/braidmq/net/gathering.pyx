"""When to let input gather for a moment before it is read. Pure: times and counts in, seconds out.

With one message a write, a broker that reads at once makes three system calls for each message. Waiting for
some ten microseconds lets more messages come, and then the same calls serve them all. But waiting also holds up
clients that wait for an answer before they go on, and a broker with little to do gains nothing by it.

So it is tried. While the loop is busy, stretches of turns without waiting are followed by a trial with it. If
that brought several times as many packets a turn, and no fewer a second, gathering stays on for a while; then it
is asked again. An idle or moderately busy loop never waits, and a message never waits longer than `wait_max_s`.

Cost: some additions a turn.
"""

cdef enum:
    LOAD_GAIN = 2            # packets a turn, with waiting against without: less isn't worth it

cdef double STRETCH_S = 0.005        # of turns, before something is decided
cdef double KEPT_S = 0.1             # how long a decision holds
cdef double BUSY_SHARE = 0.6         # of the time: below it the processor has nothing better to do than to be quick
cdef double RATE_KEPT = 0.9          # packets a second, with waiting against without


cdef class Gathering:
    """One event loop's decision. `wait_max_s` = 0 turns it off."""

    def __init__(self, double wait_max_s):
        self.wait_max_s = wait_max_s

    cdef double wait_s(self, double now) noexcept:
        """How long to wait before the turn that could begin now."""
        if not (self.is_on or self.is_trial):
            return 0.0
        return max(0.0, self.turn_ended_s + self.wait_max_s - now)

    cdef void ended(self, double began_s, double now, long long packets) noexcept:
        """A turn is over that began (after waiting) at `began_s`; `packets` have come since the start."""
        self.busy_s += now - began_s
        self.turns += 1
        self.turn_ended_s = now
        if now >= self.decides_at_s:
            self.decide(now, packets - self.packets_before)
            self.began_s = now
            self.busy_s = 0.0
            self.turns = 0
            self.packets_before = packets

    cdef void decide(self, double now, long long packets) noexcept:
        cdef double lasted_s = max(now - self.began_s, 1e-9)
        cdef double rate = packets / lasted_s
        cdef double load = packets / <double>self.turns
        if self.is_trial:
            self.is_trial = False
            self.is_on = load >= LOAD_GAIN * self.plain_load and rate >= RATE_KEPT * self.plain_rate
            self.decides_at_s = now + KEPT_S
        elif self.is_on:  # time to look again at what the turns are like without it
            self.is_on = False
            self.decides_at_s = now + STRETCH_S
        else:
            self.plain_rate, self.plain_load = rate, load
            self.is_trial = self.wait_max_s > 0 and self.busy_s >= BUSY_SHARE * lasted_s
            self.decides_at_s = now + STRETCH_S

    def wait(self, double now):
        """As `wait_s`, for tests."""
        return self.wait_s(now)

    def turn_ended(self, double began_s, double now, long long packets):
        """As `ended`, for tests."""
        self.ended(began_s, now, packets)
