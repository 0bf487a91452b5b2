"""A receiver that never loses an acknowledged message: write, then acknowledge.

`python examples/client_durable_receiver.py TOPIC_FILTER FILE [host:port]`

The client id is always the same and the session outlives the program, so the broker keeps what comes while
it is away. A message is acknowledged when the file has it on disk; after a crash in between it comes again,
marked as a duplicate. The receive maximum is the back-pressure: no more than that is ever on its way to us.
"""

import os
import signal
import sys
from pathlib import Path

from braidmq.client import BlockingClient

WEEK_S = 7 * 24 * 3600


def main(topic_filter: str, path: Path, address: str) -> None:
    stopping = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    client = BlockingClient(
        address,
        client_id=f"durable-receiver-{path.name}",
        clean_start=False,
        session_expiry_s=WEEK_S,
        receive_maximum=5_000,
        manual_ack=True,
        pinger=True,  # a slow disk must not cost the connection
        connect_patience_s=60.0,
    )
    with client, path.open("ab") as file:
        client.subscribe(topic_filter, qos=1)
        print("receiving", flush=True)
        while not stopping:
            batch = client.receive_batch(max_messages=5_000, timeout_s=0.5, max_wait_s=0.05)
            if not len(batch):
                continue
            file.writelines(payload + b"\n" for payload in batch.payloads)
            file.flush()
            os.fsync(file.fileno())
            batch.ack()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "localhost:1883")
