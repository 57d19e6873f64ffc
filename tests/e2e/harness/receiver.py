"""The test's handle of the receiver process."""

import os

from .process import Helper, LineLog
from .waiting import until


class Receiver(Helper):
    script = "receiver_process.py"

    def __init__(self, folder, certificate="", key="", client_ca=""):
        path = os.path.join(folder, "received.jsonl")
        open(path, "wb").close()
        super().__init__(log=path, certificate=certificate, key=key, client_ca=client_ca)
        self.scheme = "https" if certificate else "http"
        self.port = self.hello["port"]
        self._log = LineLog(path)

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}/inbox"

    def rules(self, *rules):
        """Replaces the rules. Each is a dict: ids, types, status, headers, body, body_size, delay,
        hang, reset, times. The first that matches decides; without one the answer is 200."""
        self.call("rules", rules=list(rules))

    def requests(self):
        """All requests so far in the order of arrival."""
        return self._log.entries()

    def accepted(self):
        """The requests that were answered with 2xx."""
        return [r for r in self.requests() if isinstance(r["answer"], int) and r["answer"] < 300]

    def accepted_ids(self):
        return [r["id"] for r in self.accepted()]

    def wait_for_ids(self, ids, seconds):
        """Waits until every id was accepted at least once."""
        wanted = set(ids)

        def missing():
            return len(wanted - set(self.accepted_ids()))

        until(lambda: missing() == 0, seconds,
              lambda: f"{missing()} of {len(wanted)} ids still to be accepted", poll=0.05)

    def wait_for_requests(self, count, seconds):
        until(lambda: len(self.requests()) >= count, seconds,
              lambda: f"{count} requests, so far {len(self.requests())}")
