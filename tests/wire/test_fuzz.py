"""Some seconds of fuzzing in every run, and proof that the fuzzer would notice."""

import itertools
import random

import pytest

from braidmq.wire import Packet, Pingreq
from tests.wire import fuzz_codec

INPUTS_PER_SEED = 30_000


@pytest.mark.parametrize("seed", [1, 2])
def test_no_input_breaks_the_codec(seed: int) -> None:
    assert fuzz_codec.run(seed, lambda tried: tried == INPUTS_PER_SEED) == INPUTS_PER_SEED


def test_same_seed_gives_the_same_inputs() -> None:
    first, second = (
        list(itertools.islice(fuzz_codec.inputs(random.Random(7)), 2000)) for _ in range(2)
    )
    assert first == second


def test_fault_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def crash(first_byte: int, body: bytes, version: int) -> Packet:
        if len(body) == 3:
            raise IndexError("a decoder that forgot to check")
        return Pingreq()

    monkeypatch.setattr(fuzz_codec, "decode", crash)
    with pytest.raises(IndexError):
        fuzz_codec.run(1, lambda tried: tried == INPUTS_PER_SEED)
    assert "fault after" in capsys.readouterr().err


def test_lost_meaning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_codec, "encode", lambda packet, version: b"\xd0\0")
    with pytest.raises(AssertionError):
        fuzz_codec.run(1, lambda tried: tried == INPUTS_PER_SEED)
