"""Figure 5 of the paper: no filters of wildcards alone. Ten random characters a level never match then."""

from braidmq.sim.bloom.sweeps import SweepFigure
from braidmq.sim.bloom.trial import Mode

FIGURE = SweepFigure("figure5", "Figure 5: without wildcard-only filters", Mode.WITHOUT_WILDCARD_ONLY)
