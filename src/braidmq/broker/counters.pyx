"""What one broker has received, sent and dropped since it was started. Counting costs an addition."""

DROP_NAMES = (
    "slow_subscriber",
    "queue_full",
    "expired",
    "packet_too_large",
    "not_authorized",
    "session_ended",
    "rejected",
    "away",
    "damaged",
    "store_failing",
    "group_gone",
    "topic_too_long",
    "retained_full",
    "peer_away",
    "peer_gone",
)


cdef class Counters:
    """The hot path adds to the fields; everybody else reads `by_name`."""

    def by_name(self):
        """All counters, as of now."""
        counts = {
            "publishes_received": self.publishes_received,
            "publishes_sent": self.publishes_sent,
            "packets_received": self.packets_received(),
            "packets_sent": self.publishes_sent + self.others_sent,
            "publish_bytes_received": self.publish_bytes_received,
            "publish_bytes_sent": self.publish_bytes_sent,
            "bytes_received": self.bytes_received,
            "bytes_sent": self.bytes_sent,
        }
        for index, name in enumerate(DROP_NAMES):
            counts[f"dropped_{name}"] = self.dropped[index]
        return counts
