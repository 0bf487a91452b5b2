"""Both relays pass on what they are sent, all of it and in order, whatever the reads cut apart."""

import msgspec
import pytest

from bench.contenders import relay
from braidmq.load.case import Case
from braidmq.load.generator import run

TOPIC = "bench/topic"
CASE = Case(topics=(TOPIC,), batch=64, ramp_s=0.0, steady_s=30.0, quiet_s=3.0, spin=False)


@pytest.mark.parametrize("bare_c", [False, True])
def test_nothing_is_lost_on_the_way(bare_c: bool) -> None:
    with relay(bare_c=bare_c) as contender:
        for version, subscribers, payload_bytes, messages in (
            (5, 1, 100, 30_000), (4, 5, 1024, 3000), (5, 2, 70_000, 300),
        ):
            case = msgspec.structs.replace(
                CASE, port=contender.port, version=version, subscriptions=(TOPIC,) * subscribers,
                payload_bytes=payload_bytes, messages=messages,
            )
            result = run(case)
            assert (result.sent, result.delivered) == (messages, messages * subscribers)
            assert (result.duplicates, result.order_faults, result.foreign) == (0, 0, 0)
