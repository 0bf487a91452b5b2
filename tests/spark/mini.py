"""A stand-in for the driver of Spark: the same calls in the same order, the same checkpoint, far less time.

    python -m tests.spark.mini FOLDER      # options.json in FOLDER; until stdin ends

Offsets are written before a batch runs, its rows appear all at once, the commit is noted after it: so a run
that was killed anywhere goes on as a query would. Rows go to out/<batch>.arrow.
"""

import json
import os
import sys
import threading
from pathlib import Path

import pyarrow as pa

from braidmq.spark.driver import StreamDriver
from braidmq.spark.offsets import Offsets
from braidmq.spark.reading import read_slices
from braidmq.spark.source_options import read_stream_options

TRIGGER_S = 0.05


class MiniQuery:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        given = json.loads((folder / "options.json").read_text())
        self.options = read_stream_options(given | {"walLocation": str(folder / "wal")})
        self.driver = StreamDriver(self.options)
        for name in ("offsets", "commits", "out"):
            (folder / name).mkdir(exist_ok=True)

    def run(self, stopping: threading.Event) -> None:
        batch, start = self.recover()
        while not stopping.is_set():
            end = self.driver.latest(start, self.options.limits)
            if end == start:
                stopping.wait(TRIGGER_S)
                continue
            self.note("offsets", batch, {"start": start, "end": end})
            self.process(batch, start, end)
            batch, start = batch + 1, end
        self.driver.stop()

    def recover(self) -> tuple[int, Offsets]:
        planned = sorted(
            int(path.name) for path in (self.folder / "offsets").iterdir() if path.name.isdigit()
        )
        if not planned:
            return 0, self.driver.initial()
        last = planned[-1]
        noted = json.loads((self.folder / "offsets" / str(last)).read_text())
        if not (self.folder / "commits" / str(last)).exists():
            self.process(last, noted["start"], noted["end"])
        return last + 1, noted["end"]

    def process(self, batch: int, start: Offsets, end: Offsets) -> None:
        rows = [
            record
            for pieces in self.driver.plan(start, end)
            for record in read_slices(self.options.wal_location, pieces, skip_missing=False)
        ]
        path = self.folder / "out" / f"{batch}.arrow"
        with pa.OSFile(f"{path}.unfinished", "wb") as file, pa.ipc.new_file(file, rows[0].schema) as writer:
            for record in rows:
                writer.write_batch(record)
        os.rename(f"{path}.unfinished", path)  # noqa: PTH104
        self.note("commits", batch, {})
        self.driver.commit(start)  # Spark tells with a batch that the one before it is committed

    def note(self, kind: str, batch: int, value: object) -> None:
        path = self.folder / kind / f"{batch}.unfinished"
        path.write_text(json.dumps(value))
        path.rename(path.with_suffix(""))


def main() -> None:
    stopping = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
    MiniQuery(Path(sys.argv[1])).run(stopping)


if __name__ == "__main__":
    main()
