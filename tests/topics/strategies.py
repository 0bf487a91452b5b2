"""Hypothesis strategies for topics and filters that match, nearly match and share prefixes often."""

from hypothesis import strategies as st

# Few and odd: levels repeat, some begin with $, some are empty, and they lie around the 8 and the 10 bytes up
# to which the trie compares and keeps a level in another way.
LEVELS = [
    *(b"", b"a", b"b", b"$", b"$SYS", "é漢".encode(), b"sevenby", b"eight by", b"tenbytes10", b"tenbytes20"),
    *(b"elevenbytes", b"elevenbytez", b"x" * 300),
]

literal_levels = st.sampled_from(LEVELS)
wild_levels = st.sampled_from([*LEVELS, b"+", b"+", b"+"])

topics = st.lists(literal_levels, min_size=1, max_size=6).map(b"/".join).filter(bool)
filters = st.builds(
    lambda levels, rest: b"/".join([*levels, b"#"] if rest else levels),
    st.lists(wild_levels, max_size=6),
    st.booleans(),
).filter(bool)
hash_bits = st.sampled_from([32, 32, 4, 1, 0])
