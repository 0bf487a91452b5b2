from collections.abc import Callable

from braidmq.broker.receiver import Receiver
from braidmq.messages.message import Message

class Relay(Receiver):
    def __init__(self, send: Callable[[Message], object]) -> None: ...
