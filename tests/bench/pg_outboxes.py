"""Outboxes in PostgreSQL to measure with: each a database of its own, in memory."""

import itertools
import re
import subprocess

from harness.relay import run_command

TEMPLATE = "bench_template"
COLUMNS = "id, event_type, ordering_key, content_type, status, payload"
END = "-- end --"
TIME_LIMIT = 300


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Session:
    """A connection that stays open: a psql that takes statements from us."""

    def __init__(self, url):
        self._process = subprocess.Popen(
            ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.communicate(timeout=TIME_LIMIT)

    def ask(self, sql):
        """The rows, each a list of texts."""
        self._process.stdin.write(f"{sql};\n\\echo {END}\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._process.stdout.readline()) != END + "\n":
            lines.append(line.rstrip("\n"))
            if not line:
                raise RuntimeError(f"{sql}: {' '.join(lines).strip()}")
        return [line.split("|") for line in lines]

    def value(self, sql):
        return self.ask(sql)[0][0]


class PgOutbox:
    """Remembers which rows were inserted last: those with `low` < sequence <= `high`."""

    def __init__(self, server, database):
        self.server = server
        self.database = database
        self.url = server.url(database)
        self.low = self.high = 0

    def session(self):
        return Session(self.url)

    def sql(self, text):
        """Without the time limit of a test."""
        with self.session() as session:
            session.ask(text)

    def note_inserted(self):
        with self.session() as session:
            self.low = self.high
            self.high = int(session.value("SELECT max(sequence) FROM outbox_messages"))

    def fill(self, count, keyed=True, prefix="event"):
        """Pending rows with the events of the stock, in turn."""
        self.sql(f"INSERT INTO outbox_messages ({COLUMNS}) "
                 f"SELECT {quoted(prefix)} || '-' || lpad(g::text, 20, '0'), e.event_type, "
                 f"{'e.ordering_key' if keyed else 'NULL'}, 'application/json', 'Pending', e.payload "
                 f"FROM generate_series(0, {count - 1}) AS g JOIN bench_events AS e "
                 "ON e.number = g % (SELECT count(*) FROM bench_events)")
        self.note_inserted()

    def fill_processed(self, count, payload_bytes):
        """Rows that were delivered some time ago."""
        self.sql("INSERT INTO outbox_messages (id, event_type, content_type, status, "
                 "processed_on_utc, payload) SELECT 'old-' || lpad(g::text, 20, '0'), "
                 "'asset.created', 'application/json', 'Processed', now() - interval '1 day', "
                 f"convert_to(repeat('x', {payload_bytes}), 'UTF8') "
                 f"FROM generate_series(1, {count}) AS g")
        self.sql("VACUUM (ANALYZE) outbox_messages")  # as autovacuum would have by then
        self.note_inserted()

    def notify(self):
        """The trigger that tells relays of new rows, as `init` prints it."""
        printed = run_command("init", "--store", self.url).stdout
        trigger = re.search(r"^-- CREATE OR REPLACE FUNCTION.*", printed, re.M | re.S)[0]
        self.sql(re.sub(r"^-- ", "", trigger, flags=re.M).strip().rstrip(";"))

    def all_processed(self):
        with self.session() as session:
            return session.value("SELECT NOT EXISTS (SELECT 1 FROM outbox_messages "
                                 "WHERE status <> 'Processed')") == "t"


class PgStock:
    """Makes outboxes, as copies of an empty one with the events beside it."""

    def __init__(self, server, events):
        self.server = server
        self._numbers = itertools.count()
        url = server.create(TEMPLATE)
        done = run_command("init", "--apply", "--store", url)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        values = ",\n".join(
            f"({number}, {quoted(type_)}, {quoted(key)}, convert_to({quoted(payload)}, 'UTF8'))"
            for number, (type_, key, payload) in enumerate(events.texts()))
        server.psql("CREATE TABLE bench_events (number bigint PRIMARY KEY, event_type text, "
                    f"ordering_key text, payload bytea); INSERT INTO bench_events VALUES {values}; "
                    "ANALYZE bench_events", TEMPLATE)

    def empty(self):
        database = f"bench{next(self._numbers)}"
        self.server.psql(f"CREATE DATABASE {database} TEMPLATE {TEMPLATE}")
        return PgOutbox(self.server, database)

    def filled(self, count, keyed=True):
        """An outbox with so many pending rows. Remove it with discard() after use."""
        outbox = self.empty()
        outbox.fill(count, keyed)
        return outbox

    def discard(self, outbox):
        self.server.psql(f"DROP DATABASE {outbox.database} WITH (FORCE)")
