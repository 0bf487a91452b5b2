from braidmq.broker.sharing.member import Delivery

class Inflight:
    last_packet_id: int
    @property
    def count(self) -> int: ...
    def restore(
        self,
        packet_id: int,
        message: object,
        target: object,
        stage: int,
        retain: bool,
        sequence: int,
        delivery: Delivery | None = None,
    ) -> None: ...
