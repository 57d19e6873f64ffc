"""An application: inserts events in transactions of its own, with nothing of the relay's code.

For each commit it appends one line to a truth log, which is on disk before the next one begins.
"""

import hashlib
import json
import os
import random
import sqlite3
import sys
import threading
import time
import uuid

from events import load_events

INSERT = ("INSERT INTO outbox_messages"
          " (id, event_type, ordering_key, content_type, headers, traceparent, payload)"
          " VALUES (?, ?, ?, ?, ?, ?, ?)")


def make_row(event, copy, rng, keys):
    payload = json.dumps(event["payload"], ensure_ascii=False, separators=(",", ":")).encode()
    key = event["ordering_key"] if keys is None else f"{event['ordering_key']}/{copy % keys}"
    headers = {"X-GitHub-Event": event["event_type"].split(".")[1], "X-Copy": str(copy),
               "X-Note": "caf\u00e9 100 %, \"quoted\""}
    return {
        "id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        "type": event["event_type"], "key": key, "content_type": "application/json",
        "headers": headers, "payload": payload,
        "traceparent": f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01",
    }


def values(row):
    return (row["id"], row["type"], row["key"], row["content_type"], json.dumps(row["headers"]),
            row["traceparent"], row["payload"])


def truth(row):
    kept = {name: row[name] for name in ("id", "type", "key", "headers", "traceparent")}
    return {**kept, "sha": hashlib.sha256(row["payload"]).hexdigest(), "size": len(row["payload"])}


class Application:
    def __init__(self, arguments):
        self.arguments = arguments
        self.rng = random.Random(arguments["seed"])
        self.events = load_events(arguments["events"])
        self.truth = open(arguments["truth"], "ab", buffering=0)
        self.errors = []
        self.rows = 0
        self.commits = 0
        self.stop = threading.Event()
        self.database = sqlite3.connect(arguments["database"], isolation_level=None,
                                        timeout=arguments["busy_timeout"],
                                        check_same_thread=False)
        self.database.execute("PRAGMA synchronous=NORMAL")

    def next_rows(self):
        size = self.rng.randint(*self.arguments["rows_per_commit"])
        count = self.arguments["count"]
        if count is not None:
            size = min(size, count - self.rows)
        first = self.rows
        return [make_row(self.events[i % len(self.events)], i // len(self.events), self.rng,
                         self.arguments["keys"]) for i in range(first, first + size)]

    def commit(self, rows):
        began = time.monotonic()
        self.database.execute("BEGIN IMMEDIATE")
        for row in rows:
            self.database.execute(INSERT, values(row))
        self.database.execute("COMMIT")
        return time.monotonic() - began

    def note(self, rows, latency):
        line = {"t": time.monotonic(), "latency": latency, "rows": [truth(row) for row in rows]}
        self.truth.write((json.dumps(line) + "\n").encode())
        os.fsync(self.truth.fileno())

    def run(self):
        while not self.stop.is_set():
            rows = self.next_rows()
            if not rows:
                break
            try:
                latency = self.commit(rows)
            except sqlite3.Error as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                self.stop.wait(0.05)
                continue
            self.rows += len(rows)
            self.commits += 1
            self.note(rows, latency)
            if self.arguments["pause"]:
                self.stop.wait(self.arguments["pause"])

    def summary(self, done):
        return {"done": done, "rows": self.rows, "commits": self.commits, "errors": self.errors}


def main():
    application = Application(json.loads(sys.argv[1]))
    print(json.dumps({}), flush=True)
    worker = threading.Thread(target=application.run, daemon=True)
    worker.start()
    for line in sys.stdin:
        command = json.loads(line)["command"]
        if command == "stop":
            application.stop.set()
            worker.join()
        print(json.dumps(application.summary(not worker.is_alive())), flush=True)


main()
