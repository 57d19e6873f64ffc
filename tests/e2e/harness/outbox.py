"""An outbox database, looked at with Python's sqlite3."""

import collections
import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import uuid

from .relay import binary

FINISHED = ("Processed", "DeadLettered")


class Outbox:
    def __init__(self, folder, name="app.db", create=True):
        self.path = os.path.join(folder, name)
        self.url = "sqlite://" + self.path
        if create:
            done = subprocess.run([binary(), "init", "--apply", "--store", self.url],
                                  capture_output=True, text=True, timeout=30)
            assert done.returncode == 0, f"init --apply: {done.returncode}: {done.stderr}"

    def make(self, *statements):
        """A database as the relay needs it, with what an application puts there."""
        with self.connection() as database:
            for statement in ("PRAGMA journal_mode=WAL", *statements):
                database.execute(statement)

    @contextlib.contextmanager
    def connection(self, timeout=10):
        """A connection that commits by itself unless BEGIN says otherwise."""
        database = sqlite3.connect(self.path, isolation_level=None, timeout=timeout)
        try:
            yield database
        finally:
            database.close()

    def query(self, sql, *values):
        with self.connection() as database:
            return database.execute(sql, values).fetchall()

    def value(self, sql, *values):
        return self.query(sql, *values)[0][0]

    def insert(self, payload=b'{"n":1}', event_type="asset.created", **columns):
        """Inserts one row and returns its id."""
        return self.insert_many(1, payload=payload, event_type=event_type, **columns)[0]

    def insert_many(self, count, payload=b'{"n":1}', event_type="asset.created", **columns):
        """Inserts rows in one transaction and returns their ids."""
        given = columns.pop("id", None)
        ids = [given or str(uuid.uuid4()) for _ in range(count)]
        names = ["id", "event_type", "payload", *columns]
        sql = (f"INSERT INTO outbox_messages ({', '.join(names)})"
               f" VALUES ({', '.join('?' * len(names))})")
        with self.connection() as database:
            database.execute("BEGIN IMMEDIATE")
            for row_id in ids:
                database.execute(sql, (row_id, event_type, payload, *columns.values()))
            database.execute("COMMIT")
        return ids

    def insert_expression(self, row_id, **expressions):
        """Inserts one row whose columns are SQL expressions: for values that Python can't bind."""
        columns = {"id": f"'{row_id}'", "event_type": "'asset.created'", "payload": "'{}'",
                   **expressions}
        with self.connection() as database:
            database.execute(f"INSERT INTO outbox_messages ({', '.join(columns)})"
                             f" VALUES ({', '.join(columns.values())})")
        return row_id

    def row(self, row_id):
        with self.connection() as database:
            database.row_factory = sqlite3.Row
            database.text_factory = lambda data: data.decode(errors="replace")
            found = database.execute(
                "SELECT sequence, id, event_type, status, retry_count, next_attempt_on_utc,"
                " last_error, processed_on_utc, dead_letter_reason FROM outbox_messages"
                " WHERE id = ?", (row_id,)).fetchone()
            assert found, f"no row {row_id}"
            return dict(found)

    def states(self):
        """How many rows have each status."""
        return collections.Counter(dict(
            self.query("SELECT status, count(*) FROM outbox_messages GROUP BY status")))

    def all_processed(self):
        return self.value("SELECT count(*) FROM outbox_messages WHERE status <> 'Processed'") == 0

    def unfinished(self):
        return self.value("SELECT count(*) FROM outbox_messages WHERE status NOT IN"
                          " ('Processed', 'DeadLettered')")

    def leases(self):
        return self.value("SELECT count(*) FROM outbox_relay_leases")

    def retry_sum(self):
        return self.value("SELECT coalesce(sum(retry_count), 0) FROM outbox_messages")

    def check_integrity(self):
        assert self.value("PRAGMA integrity_check") == "ok"


def sha(payload):
    return hashlib.sha256(payload).hexdigest()


def headers_of(request):
    """Header fields of a received request; a name that came twice is an error."""
    names = [name for name, _ in request["headers"]]
    assert len(names) == len(set(names)), f"a header came twice: {sorted(names)}"
    return dict(request["headers"])


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.strip()]
