from braidmq.broker.audience import Audience

class Watching:
    audience: Audience | None
    message_audience: Audience | None
    wanted: int
