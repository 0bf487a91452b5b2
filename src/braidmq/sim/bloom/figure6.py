"""Figure 6 of the paper: nothing matches. It has the two averages that the paper prints, 29.7 and 1570.0."""

from braidmq.sim.bloom.sweeps import SweepFigure
from braidmq.sim.bloom.trial import Mode

FIGURE = SweepFigure("figure6", "Figure 6: without a matching subscription", Mode.NO_MATCH)
