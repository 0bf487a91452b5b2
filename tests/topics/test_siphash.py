"""The keyed hash of the tries. It is trusted as SipHash, so it must be SipHash: Python's own is the judge."""

import json
import subprocess
import sys

import pytest

from braidmq.topics.siphash import siphash13

ASK = "import json; print(json.dumps([hash(bytes(range(n))) % 2**64 for n in range(1, 40)]))"


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="this Python hashes in another way")
def test_it_is_what_python_uses_with_a_key_of_zeros() -> None:
    environment = {"PYTHONHASHSEED": "0"}
    asked = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, check=True)
    assert [siphash13(bytes(range(n)), bytes(16)) for n in range(1, 40)] == json.loads(asked.stdout)


def test_every_bit_of_the_key_counts() -> None:
    keys = [(1 << bit).to_bytes(16, "little") for bit in range(128)]
    assert len({siphash13(b"level", key) for key in keys}) == 128


def test_a_key_has_16_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 15"):
        siphash13(b"level", bytes(15))
