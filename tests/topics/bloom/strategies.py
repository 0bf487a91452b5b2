"""Topics and filters made of few, awkward levels, so that they meet often."""

import random

from hypothesis import strategies as st

# Empty levels, `$` in front and at the end, a level longer than one hash step, and plain ones.
LEVELS = [b"", b"a", b"b", b"$", b"$SYS", b"c$", b"level-of-more-than-sixteen-bytes", "ü".encode()]

topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=7).map(b"/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> bytes:
    levels = draw(st.lists(st.sampled_from([*LEVELS, b"+", b"+"]), min_size=1, max_size=7))
    if draw(st.integers(0, 3)) == 0:
        levels[-1] = b"#"
    return b"/".join(levels) or b"+"


def random_topic(rng: random.Random, depth_max: int = 6) -> bytes:
    return b"/".join(rng.choice(LEVELS) for _ in range(rng.randint(1, depth_max))) or b"a"


def random_filter(rng: random.Random, depth_max: int = 6) -> bytes:
    """A filter that stands a good chance to match: levels of a topic, some replaced by wildcards."""
    levels = random_topic(rng, depth_max).split(b"/")
    levels = [b"+" if rng.random() < 0.3 else level for level in levels]
    choice = rng.random()
    if choice < 0.2:
        levels.append(b"#")
    elif choice < 0.35:
        levels = [*levels[: rng.randrange(len(levels))], b"#"]
    return b"/".join(levels) or b"+"
