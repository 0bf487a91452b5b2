"""Rates on a real broker process: a fast sender gets everything through; a busy address is closed."""

import contextlib

from braidmq.wire import Publish
from tests.net.running import serving
from tests.support.raw import ClosedError, RawClient

MESSAGES = 300


def test_a_fast_sender_loses_nothing() -> None:
    with serving([{}], "[limits]\nclient_messages_per_s_max = 200\n") as (_, ports):
        reader, writer = RawClient(ports[0]), RawClient(ports[0])
        reader.connect("reader")
        writer.connect("writer")
        reader.subscribe("t")
        for index in range(MESSAGES):
            writer.send(Publish("t", str(index).encode()))
        writer.barrier()
        assert [reader.receive().payload for _ in range(MESSAGES)] == [  # type: ignore[union-attr]
            str(index).encode() for index in range(MESSAGES)
        ]


def test_an_address_that_connects_too_often_is_closed_without_a_word() -> None:
    with serving([{}], "[limits]\naddress_connects_per_s_max = 5\n") as (broker, ports):
        clients = [RawClient(ports[0]) for _ in range(60)]
        answered = 0
        for index, client in enumerate(clients):
            with contextlib.suppress(ClosedError):
                client.connect(f"c-{index}")
                answered += 1
            client.close()
        assert 5 <= answered < len(clients)
        assert broker.running()
