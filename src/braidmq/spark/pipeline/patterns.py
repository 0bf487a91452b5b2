"""Topic patterns: a topic filter whose wildcards may have names, `sites/{site}/{device}/telemetry`.

A name makes a column of that level. Without `{device}` the device of a message is its whole topic. Matching
is that of MQTT filters; it is asked once per distinct topic of a batch, so that it needn't be clever.
"""

import re
from typing import Final, NamedTuple

from braidmq.topics.filters import matches, validate_filter

_NAMED: Final = re.compile(r"{([^{}/]+)}")
DEVICE: Final = "device"


class TopicPattern(NamedTuple):
    """A filter, and which of its levels have names."""

    filter: str
    places: tuple[tuple[str, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.places)

    def read(self, topic: str) -> dict[str, str] | None:
        """The named levels and the device of a topic that matches; None of any other."""
        if not matches(self.filter, topic):
            return None
        levels = topic.split("/")
        return {DEVICE: topic} | {name: levels[place] for name, place in self.places}


def parse_pattern(text: str) -> TopicPattern:
    """ProtocolError unless the pattern is a topic filter once its names are taken for `+`."""
    levels = text.split("/")
    places = tuple(
        (named[1], place) for place, level in enumerate(levels) if (named := _NAMED.fullmatch(level))
    )
    for _, place in places:
        levels[place] = "+"
    validate_filter("/".join(levels))
    return TopicPattern("/".join(levels), places)
