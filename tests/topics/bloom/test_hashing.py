"""Keys: stable numbers, one for every prefix, none that a topic could spell by accident."""

import subprocess
import sys

from hypothesis import given

from braidmq.topics.bloom.hashing import end_key, filter_keys, hash_bytes, hash_key, path_key, strip_shared
from tests.topics.bloom.strategies import LEVELS, filters

SEED = 0x5EED


def test_the_papers_prefixes() -> None:
    path = [b"a", b"+", b"c", b"d"]
    prefixes = [path_key(path[:length], SEED) for length in (1, 2, 3)]
    assert filter_keys(b"a/+/c/d", SEED) == [*prefixes, end_key(path_key(path, SEED))]


def test_a_hash_stores_its_parents_end() -> None:
    parent = path_key([b"a", b"b"], SEED)
    assert filter_keys(b"a/b/#", SEED) == [path_key([b"a"], SEED), parent, hash_key(parent), end_key(parent)]
    assert filter_keys(b"#", SEED) == [hash_key(SEED)]


def test_a_shared_group_is_no_part_of_the_interest() -> None:
    assert strip_shared(b"$share/group/a/#") == b"a/#"
    assert strip_shared(b"$share") == b"$share"
    assert strip_shared(b"$SYS/a") == b"$SYS/a"
    assert filter_keys(b"$share/group/+/b", SEED) == filter_keys(b"+/b", SEED)


def test_the_numbers_never_change() -> None:
    """Peers of other versions and machines rely on them."""
    assert hash_bytes(b"") == 0x71285E898EC4F180
    assert hash_bytes(b"temperature") == 0x65406560A4750825
    assert hash_bytes(b"floor-with-a-long-name") == 0xBB802249843B35DC
    assert filter_keys(b"site7/+/floor-with-a-long-name/#", 1) == [
        0xA47FC645C803A530, 0xBED99E380FA5EA7A, 0x9D9E8A02EC06E809, 0x14FE4D4515020B78, 0x96B5D16A1F86D2C3]


def test_the_numbers_are_the_same_in_another_process() -> None:
    code = "from braidmq.topics.bloom import hashing; print(hashing.filter_keys(b'a/+/long-level/#', 99))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(filter_keys(b"a/+/long-level/#", 99))


def test_lengths_and_contents_give_different_hashes() -> None:
    texts = [bytes(length) for length in range(70)]
    texts += [b"x" * 40 + bytes([byte]) + b"y" * position for byte in range(1, 40) for position in range(40)]
    texts += [*LEVELS, b"+", b"#"]
    assert len({hash_bytes(text) for text in texts}) == len(set(texts))


@given(filters(), filters())
def test_different_filters_have_different_last_keys(one: bytes, other: bytes) -> None:
    same = strip_shared(one) == strip_shared(other)
    assert (filter_keys(one, SEED) == filter_keys(other, SEED)) == same


def test_the_end_is_no_level() -> None:
    ends = {filter_keys(filter, SEED)[-1] for filter in (b"a", b"a$", b"a/", b"a/$", b"a/+", b"a/\0")}
    assert len(ends) == 6


def test_very_deep_filters_are_cut() -> None:
    keys = filter_keys(b"/".join([b"x"] * 5000), SEED)
    assert len(keys) == 128
    assert keys == [path_key([b"x"] * depth, SEED) for depth in range(1, 129)]
