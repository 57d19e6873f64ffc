"""An outbox in a PostgreSQL database, as its application and its owner see it."""

import itertools
import json
import os
import subprocess
import sys

from .process import die_with_parent
from .relay import run_command

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "servers"))

import pgbouncer  # noqa: E402
import postgresql  # noqa: E402

MISSING = [path for path in (postgresql.SERVER, "/usr/bin/psql") if not os.path.exists(path)]
_numbers = itertools.count(1)


class PostgresOutbox:
    """A database of its own on the server, with the relay's tables unless told otherwise."""

    def __init__(self, server, create=True, encoding="UTF8"):
        self.server = server
        self.database = f"shop{next(_numbers)}"
        self.url = server.create(self.database, encoding)
        if create:
            done = run_command("init", "--apply", "--store", self.url)
            assert done.returncode == 0, done

    def url_of(self, role):
        return self.server.url(self.database, role)

    def sql(self, text):
        return self.server.psql(text, self.database)

    def insert(self, name, event_type="order.placed", payload="{}", key=None):
        quoted = "NULL" if key is None else f"'{key}'"
        self.sql("INSERT INTO outbox_messages (id, event_type, payload, ordering_key) VALUES "
                 f"('{name}', '{event_type}', convert_to('{payload}', 'UTF8'), {quoted})")

    def states(self):
        rows = self.sql("SELECT status, count(*) FROM outbox_messages GROUP BY 1")
        return {name: int(count) for name, count in (row.split("|") for row in rows.splitlines())}

    def all_processed(self):
        return set(self.states()) <= {"Processed"}

    def command(self, *words, role="postgres", **options):
        return run_command(*words, "--store", self.url_of(role), **options)

    def lines(self, *words, **options):
        done = self.command(*words, "-o", "jsonl", **options)
        assert done.returncode == 0, done
        return [json.loads(line) for line in done.stdout.splitlines()]

    def doctor(self, *words, role="postgres"):
        """(exit code, findings by code)."""
        done = self.command("doctor", "-o", "json", *words, role=role)
        findings = json.loads(done.stdout)
        for finding in findings:
            assert finding["what"] and finding["why"], finding
            assert finding["fix"] or finding["severity"] == "information", finding
        return done.returncode, {finding["code"]: finding for finding in findings}


class Session:
    """A session of the application's that stays open."""

    def __init__(self, outbox):
        self._psql = subprocess.Popen(["psql", "-qAtX", outbox.url], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, preexec_fn=die_with_parent)

    def sql(self, text):
        """What the statements printed; an error fails the test."""
        self._psql.stdin.write(f"{text};\n\\echo done :ERROR\n")
        self._psql.stdin.flush()
        lines = []
        for line in self._psql.stdout:
            if line.startswith("done "):
                assert line == "done false\n", lines
                break
            lines.append(line.rstrip("\n"))
        return "\n".join(lines)

    def close(self):
        self._psql.stdin.close()
        self._psql.stdout.close()
        self._psql.wait(timeout=30)
