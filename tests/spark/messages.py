"""Batches of messages as the client gives them, made from packets without a network."""

from braidmq.client import MessageBatch
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session
from braidmq.wire import V5, Connack, Packet, Publish, encode


def batch_of(*packets: Publish) -> MessageBatch:
    session = Session(SessionOptions(client_id="test"))
    session.connect(0.0)
    told: list[Packet] = [Connack(False, 0), *packets]
    for packet in told:
        session.receive(encode(packet, V5), 0.0)
    return session.take_batch(len(packets) or 1)
