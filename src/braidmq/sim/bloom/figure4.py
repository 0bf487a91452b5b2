"""Figure 4 of the paper: filters of wildcards alone are allowed, and nearly always one of them matches."""

from braidmq.sim.bloom.sweeps import SweepFigure
from braidmq.sim.bloom.trial import Mode

FIGURE = SweepFigure("figure4", "Figure 4: with wildcard-only filters", Mode.WITH_WILDCARD_ONLY)
