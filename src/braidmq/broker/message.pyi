from braidmq.store.encoding import Body

class Message(Body):
    def is_expired(self, now: float) -> bool: ...
