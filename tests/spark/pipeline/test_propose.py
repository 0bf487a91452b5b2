"""Schemas proposed from samples: they accept what was seen."""

import json
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest

from braidmq.spark.pipeline.payloads import PayloadReader
from braidmq.spark.pipeline.propose import propose, to_toml
from tests.spark.pipeline.samples import make_config

HEAD = '[pipeline]\nlocation = "x"\n[[source]]\nbrokers = ["b"]\ngroup = "g"\n'
DOCUMENTS: list[dict[str, Any]] = [
    {"Temp": 20, "ok": True, "id": "a", "at": "2026-09-22T12:00:00Z", "big": 2**40, "env": {"Wind-Speed": 1}},
    {"Temp": 20.5, "ok": None, "id": "b", "at": "2026-09-22T12:00:01Z", "big": 1, "env": {"Wind-Speed": 2}},
    {"Temp": 20.5, "id": "7", "at": "2026-09-22T12:00:01Z", "big": 1, "mixed": [1], "topic": "x", "env": {}},
]
ENCODERS = {
    "json": lambda value: json.dumps(value).encode(),
    "cbor": cbor2.dumps,
    "messagepack": msgspec.msgpack.encode,
}


@pytest.mark.parametrize("format", list(ENCODERS))
def test_a_proposal_accepts_what_it_was_made_of(tmp_path: Path, format: str) -> None:
    payloads = [ENCODERS[format](document) for document in DOCUMENTS]
    samples = [(f"plant/line/{n}/data", payload) for n, payload in enumerate(payloads)]
    proposal = propose("plant/+/+/data", samples)
    (schema,) = make_config(tmp_path, HEAD + to_toml(proposal)).schemas
    assert (schema.name, schema.format, schema.topic) == ("data", format, "plant/{level_2}/{device}/data")
    assert schema.event_time == "at"
    specs = {name: (spec.type, spec.path, spec.optional) for name, spec in schema.specs.items()}
    assert specs == {
        "temp": ("double", "Temp", False),
        "ok": ("boolean", None, True),
        "id": ("string", None, False),
        "at": ("timestamp", None, False),
        "big": ("long", None, False),
        "wind_speed": ("int", "env.Wind-Speed", True),
        "topic_2": ("string", "topic", True),
    }
    assert PayloadReader(format, schema.specs).read(payloads).refused == []


def test_what_is_no_document_is_raw(tmp_path: Path) -> None:
    proposal = propose(
        "pictures/#", [("pictures/1", b"\x89PNG\xff"), ("pictures/2", b"[1]"), ("pictures/3", b"{}")]
    )
    (schema,) = make_config(tmp_path, HEAD + to_toml(proposal)).schemas
    assert (schema.format, schema.name, schema.topic) == ("raw", "pictures", "pictures/#")


def test_a_broken_message_among_good_ones_is_counted() -> None:
    samples = [("a", b'{"ts": 1790000000, "n": 5}')] * 3 + [("a", b"{")]
    proposal = propose("a", samples)
    assert (proposal.messages, proposal.unreadable) == (4, 1)
    assert [(field.name, field.type) for field in proposal.fields] == [("ts", "timestamp_s"), ("n", "int")]
