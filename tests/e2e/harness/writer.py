"""The test's handle of the writer process."""

import os

from .events import events_path
from .process import Helper, LineLog
from .waiting import until


class Writer(Helper):
    """Starts to write at once. `count` None: until stop(). `keys`: spread each key over so many."""

    script = "writer_process.py"

    def __init__(self, folder, database, count=None, name="writer", seed=1, rows_per_commit=(1, 10),
                 pause=0.0, keys=None, busy_timeout=5.0):
        path = os.path.join(folder, f"{name}-truth.jsonl")
        open(path, "wb").close()
        self._truth = LineLog(path)
        super().__init__(database=database, truth=path, count=count, seed=seed,
                         rows_per_commit=rows_per_commit, pause=pause, keys=keys,
                         busy_timeout=busy_timeout, events=events_path())

    def progress(self):
        return self.call("progress")

    def stop(self):
        return self.call("stop")

    def wait(self, seconds):
        """Waits until all rows are written; returns the summary."""
        until(lambda: self.progress()["done"], seconds, lambda: f"writer: {self.progress()}",
              poll=0.05)
        return self.progress()

    def commits(self):
        return self._truth.entries()

    def rows(self):
        """The rows that were committed, in the order of the table (with one writer)."""
        return [row for commit in self.commits() for row in commit["rows"]]

    def ids(self):
        return [row["id"] for row in self.rows()]

    def latencies(self):
        return [commit["latency"] for commit in self.commits()]
