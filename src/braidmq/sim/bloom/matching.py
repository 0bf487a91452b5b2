"""The case the paper leaves out: a match exists. The published topic is the plain form of some subscription.

Here the order of questions matters, and here the algorithm as printed loses nearly every message.
"""

from braidmq.sim.bloom.sweeps import SweepFigure
from braidmq.sim.bloom.trial import Mode

FIGURE = SweepFigure("matching", "Not in the paper: a matching subscription exists", Mode.MATCH_EXISTS)
