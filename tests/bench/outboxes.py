"""Events and outbox databases to measure with, in memory."""

import itertools
import json
import os
import shutil
import sqlite3

from harness.outbox import Outbox

GENERATED = 500
GENERATED_KEYS = 1000
GENERATED_BYTES = 1024
INSERT = ("INSERT INTO outbox_messages"
          " (id, event_type, ordering_key, content_type, status, payload)"
          " VALUES (?, ?, ?, 'application/json', ?, ?)")


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def generated_events():
    for number in range(GENERATED):
        frame = {"number": number, "text": ""}
        frame["text"] = "x" * (GENERATED_BYTES - len(compact(frame)))
        yield {"event_type": f"asset.{('created', 'moved', 'retired')[number % 3]}",
               "ordering_key": f"asset-{number * 7919 % GENERATED_KEYS}", "payload": frame}


class Events:
    """Those of the file that OUTBOX_EVENTS names, else made up, of 1 KB each."""

    def __init__(self, folder):
        source = os.environ.get("OUTBOX_EVENTS")
        if source:
            with open(source, encoding="utf-8") as file:
                self.all = [json.loads(line) for line in file if line.strip()]
        else:
            self.all = list(generated_events())
        self.path = os.path.join(folder, "events.jsonl")
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(compact(event) + "\n" for event in self.all)
        sizes = [len(compact(event["payload"]).encode()) for event in self.all]
        self.mean_bytes = sum(sizes) / len(sizes)

    def texts(self):
        """(type, key, payload) of each."""
        return [(event["event_type"], event["ordering_key"], compact(event["payload"]))
                for event in self.all]

    def rows(self, count, prefix, keyed=True, status="Pending"):
        payloads = [compact(event["payload"]).encode() for event in self.all]
        for number in range(count):
            at = number % len(self.all)
            event = self.all[at]
            yield (f"{prefix}-{number:020}", event["event_type"],
                   event["ordering_key"] if keyed else None, status, payloads[at])


class Stock:
    """Makes outboxes. Each is a copy of one that was filled before, so all sides get the same."""

    def __init__(self, folder, events):
        self.folder = folder
        self.events = events
        self._numbers = itertools.count()
        self._filled = {}

    def empty(self):
        return Outbox(self.folder, f"outbox-{next(self._numbers)}.db")

    def filled(self, count, keyed=True):
        """An outbox with so many pending rows. Remove it with discard() after use."""
        template = self._filled.get((count, keyed))
        if template is None:
            template = self.empty()
            insert(template, self.events.rows(count, "event", keyed))
            self._filled[count, keyed] = template
        copy = Outbox(self.folder, f"outbox-{next(self._numbers)}.db", create=False)
        shutil.copyfile(template.path, copy.path)
        return copy


def insert(outbox, rows):
    """In one transaction, and out of the write-ahead log, so that copies need only the one file."""
    with outbox.connection() as database:
        database.execute("PRAGMA synchronous=OFF")
        database.execute("BEGIN IMMEDIATE")
        database.executemany(INSERT, rows)
        database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def discard(outbox):
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(outbox.path + suffix):
            os.remove(outbox.path + suffix)


def some_pending(database):
    return database.execute(
        "SELECT 1 FROM outbox_messages WHERE status = 'Pending' LIMIT 1").fetchone() is not None


def open_read_only(outbox):
    return sqlite3.connect(f"file:{outbox.path}?mode=ro", uri=True, isolation_level=None,
                           timeout=10)
