from braidmq.broker.hub import Hub
from braidmq.broker.receiver import Receiver

class FullGroup(Receiver):
    def __init__(self, hub: Hub) -> None: ...
