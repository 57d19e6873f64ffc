"""Operators' commands on an outbox in PostgreSQL: the desk, doctor, grants, foreign tables."""

import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading

import pytest

from harness import postgres
from harness.relay import binary, run_command
from harness.waiting import until

pytestmark = pytest.mark.skipif(bool(postgres.MISSING),
                                reason=f"not installed: {', '.join(postgres.MISSING)}")
# What every server of these tests is told: it runs in memory, where nothing outlives a power cut.
ALWAYS = {"fsync", "autovacuum", "backlog", "dead_letters"}


@pytest.fixture(name="scene")
def make_scene(world, outbox):
    """Two dead letters, one delivered row, and the relay that made them so."""
    receiver = world.receiver()
    receiver.rules({"types": ["asset.poison"], "status": 422})
    outbox.insert("bad-1", "asset.poison", key="k")
    outbox.insert("bad-2", "asset.poison")
    outbox.insert("good", payload='{"price": 7}')
    relay = world.relay(outbox, receiver)
    until(lambda: outbox.states() == {"DeadLettered": 2, "Processed": 1}, 20,
          lambda: f"the scene is set: {outbox.states()}")
    return outbox, receiver, relay


def serious(findings):
    return {code for code, finding in findings.items()
            if finding["severity"] != "information"} - ALWAYS


def test_messages_are_found_and_shown(scene):
    outbox, _, _ = scene
    assert [row["id"] for row in outbox.lines("messages", "find")] == ["good", "bad-2", "bad-1"]
    found = outbox.lines("messages", "find", "--state", "dead-lettered", "--key", "k",
                         "--since", "1h")
    assert [row["id"] for row in found] == ["bad-1"] and found[0]["attempts"] == 1
    done = outbox.command("messages", "show", "good", "--payload")
    assert done.returncode == 0 and "price" in done.stdout, done
    assert outbox.command("messages", "show", "absent").returncode == 4


def test_dead_letters_are_listed_exported_redriven_and_discarded(scene):
    outbox, receiver, _ = scene
    letters = outbox.lines("dead-letters", "list")
    assert {letter["id"] for letter in letters} == {"bad-1", "bad-2"}
    assert {letter["reason"] for letter in letters} == {"permanent"}
    exported = outbox.command("dead-letters", "export")
    assert exported.returncode == 0 and len(exported.stdout.splitlines()) == 2, exported
    done = outbox.command("dead-letters", "discard", "bad-2", "--yes", "--reason", "sent by hand")
    assert done.returncode == 0, done
    receiver.rules()
    done = outbox.command("dead-letters", "redrive", "--yes", "--reason", "mended")
    assert done.returncode == 0, done
    until(lambda: outbox.states() == {"Processed": 2}, 20, lambda: f"{outbox.states()}")
    trail = outbox.sql("SELECT event_id, action FROM outbox_relay_audit ORDER BY at")
    assert "bad-2|discard" in trail and "bad-1|redrive" in trail


def test_a_pause_stops_the_relay_and_status_tells(scene):
    outbox, _, relay = scene
    assert outbox.command("pause", "--reason", "maintenance").returncode == 0
    until(lambda: relay.metric("paused") == 1, 10, "the relay has seen the pause")
    outbox.insert("waits")
    done = outbox.command("status")
    assert done.returncode in (0, 1) and "maintenance" in done.stdout + done.stderr, done
    assert outbox.states()["Pending"] == 1
    assert outbox.command("resume").returncode == 0
    until(lambda: outbox.states().get("Processed") == 2, 10, lambda: f"{outbox.states()}")
    assert outbox.command("broker", "isolate", "--reason", "moved").returncode == 0
    until(lambda: relay.metric("broker_circuit_state", state="isolated") == 1, 10, "isolated")
    assert outbox.command("broker", "close").returncode == 0


def test_doctor_is_content_with_what_init_made(outbox):
    code, findings = outbox.doctor()
    assert serious(findings) == set(), findings
    assert "fsync" in findings and code == 1


def apply(outbox, finding):
    assert finding["fixKind"] == "sql", finding
    for statement in finding["fix"].split("; "):  # CONCURRENTLY stands alone
        outbox.sql(statement)


@pytest.mark.parametrize("harm,code", [
    ("DROP INDEX outbox_messages_pending", "index_missing"),
    ("DROP INDEX outbox_messages_open_key;"
     "CREATE INDEX outbox_messages_open_key ON outbox_messages (ordering_key)", "index_unfit"),
    ("ALTER TABLE outbox_messages DROP COLUMN traceparent", "column_missing"),
    ("DROP TABLE outbox_relay_leases", "relay_tables_missing"),
    ("DROP TABLE outbox_messages", "table_missing"),
    ("ALTER TABLE outbox_messages SET UNLOGGED", "unlogged"),
    ("ALTER TABLE outbox_relay_rows SET UNLOGGED", "unlogged"),
    ("ALTER DATABASE {} SET synchronous_commit = off", "synchronous_commit"),
    ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';"
     "CREATE TRIGGER watch BEFORE UPDATE OF status ON outbox_messages "
     "FOR EACH ROW EXECUTE FUNCTION f()", "update_trigger"),
    ("INSERT INTO outbox_messages (id, event_type, payload, status) "
     "VALUES ('odd', 't', '', 'Paused')", "unknown_state"),
])
def test_doctor_names_what_is_wrong_and_its_fix_mends_it(outbox, harm, code):
    outbox.sql(harm.format(outbox.database))
    result, findings = outbox.doctor()
    assert code in findings, findings
    assert result == 1
    apply(outbox, findings[code])
    assert serious(outbox.doctor()[1]) == set(), findings[code]["fix"]


def test_doctor_s_fix_fits_a_partitioned_table(outbox):
    """Where CONCURRENTLY is no choice."""
    outbox.sql("ALTER TABLE outbox_messages RENAME TO one; "
               "CREATE TABLE outbox_messages (LIKE one INCLUDING DEFAULTS INCLUDING IDENTITY, "
               "PRIMARY KEY (sequence)) PARTITION BY RANGE (sequence); "
               "CREATE TABLE part PARTITION OF outbox_messages DEFAULT; DROP TABLE one")
    assert outbox.command("init", "--apply").returncode == 0
    for harm, code in (("DROP INDEX outbox_messages_failed", "index_missing"),
                       ("ALTER INDEX outbox_messages_failed RENAME TO outbox_messages_odd;"
                        "ALTER INDEX outbox_messages_dead RENAME TO outbox_messages_failed;"
                        "ALTER INDEX outbox_messages_odd RENAME TO outbox_messages_dead",
                        "index_unfit")):
        outbox.sql(harm)
        while code in (findings := outbox.doctor()[1]):
            apply(outbox, findings[code])
        assert serious(findings) == set(), findings


def test_a_wrong_index_is_named_with_the_plan(outbox):
    outbox.sql("DROP INDEX outbox_messages_pending;"
               "CREATE INDEX other ON outbox_messages (status, next_attempt_on_utc);"
               "INSERT INTO outbox_messages (id, event_type, payload, status) SELECT 'id-' || n, "
               "'t', '', CASE WHEN n < 20000 THEN 'Processed' ELSE 'Pending' END "
               "FROM generate_series(1, 40000) AS n; ANALYZE outbox_messages")
    findings = outbox.doctor()[1]
    assert findings["query_plan"]["severity"] == "warning", findings
    apply(outbox, findings["index_missing"])
    assert "query_plan" not in outbox.doctor()[1]


@pytest.mark.skipif(not shutil.which("faketime"), reason="not installed: faketime")
def test_a_prepared_transaction_that_nobody_ends_is_named_and_the_fix_ends_it(world):
    two_phases = postgres.postgresql.PostgreSql(max_prepared_transactions=5)
    world.finally_do(two_phases.stop)
    user, two_phases.user = two_phases.user, [*two_phases.user, "faketime", "-f", "-1h"]
    two_phases.start()
    outbox = postgres.PostgresOutbox(two_phases)
    outbox.sql("BEGIN; INSERT INTO outbox_messages (id, event_type, payload) VALUES "
               "('half', 'x', ''); PREPARE TRANSACTION 'order 17'")
    # An hour later.
    assert "prepared_transaction" not in outbox.doctor()[1]
    two_phases.halt()
    two_phases.user = user
    two_phases.start()
    found = outbox.doctor()[1]["prepared_transaction"]
    assert "order 17" in found["what"] + found["fix"], found
    apply(outbox, found)
    assert outbox.sql("SELECT count(*) FROM pg_prepared_xacts") == "0"
    assert "prepared_transaction" not in outbox.doctor()[1]


def test_rows_are_found_by_texts_of_time_without_being_kept_in_memory(outbox):
    """Only the program can compare them, so it reads all of them: a part at a time."""
    outbox.sql("ALTER TABLE outbox_messages ALTER COLUMN occurred_on_utc DROP DEFAULT; "
               "ALTER TABLE outbox_messages ALTER COLUMN occurred_on_utc TYPE text "
               "USING to_char(occurred_on_utc AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'); "
               "INSERT INTO outbox_messages (id, event_type, payload, occurred_on_utc, last_error) "
               "SELECT 'row-' || n, 'order.placed', '', '20' || 10 + n % 10 || '-05-06T07:08:09Z', "
               "repeat('x', 400) FROM generate_series(1, 120000) AS n; "
               "UPDATE outbox_messages SET occurred_on_utc = '2024-05-06T07:08:09Z' "
               "WHERE id IN ('row-7', 'row-119999')")
    measure = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); "
               "sys.exit(done.returncode)")
    done = subprocess.run([sys.executable, "-c", measure, binary(), "messages", "find", "--since",
                           "2024-01-01T00:00:00Z", "--oldest-first", "-o", "jsonl", "--store",
                           outbox.url], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["row-7", "row-119999"]
    assert int(done.stderr) < 64 << 10, f"{done.stderr} KiB"


def test_a_read_replica_is_refused(server):
    outbox = postgres.PostgresOutbox(server)
    copy = postgres.postgresql.PostgreSql()
    server.halt()
    try:
        shutil.rmtree(copy.data)
        subprocess.run(["cp", "-a", server.data, copy.data], check=True)
        subprocess.run([*copy.user, "touch", copy.data + "/standby.signal"], check=True)
    finally:
        server.start()
    try:
        copy.start()
        done = run_command("doctor", "--store", copy.url(outbox.database))
        assert done.returncode == 1 and "read replica" in done.stdout, done
        done = run_command("status", "--store", copy.url(outbox.database))
        assert done.returncode != 0 and "read replica" in done.stdout, done
    finally:
        copy.stop()


def test_an_unreachable_server_is_told(world):
    done = run_command("doctor", "--store", "postgres://postgres@127.0.0.1:1/shop")
    assert done.returncode == 3 and "Connection refused" in done.stdout, done


def message(kind, body=b""):
    return kind + struct.pack("!I", len(body) + 4) + body


@contextlib.contextmanager
def impostor(answer):
    """Lets everybody in as PostgreSQL does, and answers whatever it is asked with the same."""
    greeting = (message(b"R", struct.pack("!I", 0)) + message(b"S", b"server_version\x0015.3\0") +
                message(b"S", b"server_encoding\0UTF8\0") + message(b"Z", b"I"))

    def serve(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)  # the wish for TLS
            connection.sendall(b"N")
            connection.recv(4096)
            connection.sendall(greeting)
            while connection.recv(65536):
                connection.sendall(message(b"1") + message(b"2") + answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],),
                                     daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        yield f"postgres://u@127.0.0.1:{listener.getsockname()[1]}/db"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer, words", [
    (message(b"n") + message(b"C", b"SELECT 0\0") + message(b"Z", b"I"), "as PostgreSQL does"),
    (message(b"T", struct.pack("!H", 0)) + message(b"D", struct.pack("!H", 0)) +
     message(b"C", b"SELECT 1\0") + message(b"Z", b"I"), "as PostgreSQL does"),
    (message(b"H", struct.pack("!bH", 0, 0)), "began to copy"),
])
def test_a_server_that_is_no_postgresql_is_told(answer, words):
    with impostor(answer) as url:
        done = run_command("status", "--store", url)
        assert done.returncode == 3 and words in done.stdout, done


@pytest.mark.parametrize("words", [("status",), ("init", "--grants", "relay"), ("run",)])
def test_a_table_s_name_without_its_last_quote_is_a_wrong_configuration(words):
    done = run_command(*words, "--store", "postgres://u@127.0.0.1:1/db", "--broker", "null:",
                       "--table", 'outbox"')
    assert done.returncode == 78 and "neither table nor schema.table" in done.stderr, done


def test_dead_letters_with_bytes_that_are_no_text_are_exported(world, server):
    outbox = postgres.PostgresOutbox(server, encoding="SQL_ASCII")
    outbox.sql("INSERT INTO outbox_messages (id, event_type, payload, destination) VALUES "
               "('bad', 'x', 'p', E'\\xe4'), ('worse', E'\\xe4', 'p', NULL)")
    world.relay(outbox, world.receiver())
    until(lambda: outbox.states() == {"DeadLettered": 2}, 20, lambda: f"{outbox.states()}")
    done = outbox.command("dead-letters", "export")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done


def test_a_byte_that_is_no_character_of_the_database_is_mended_by_its_owner(world, server):
    outbox = postgres.PostgresOutbox(server, encoding="WIN1252")
    relay = world.relay(outbox, world.receiver())
    outbox.sql("INSERT INTO outbox_messages (id, event_type, payload, destination) VALUES "
               "('good', 'x', 'p', NULL), ('odd', 'x', 'p', convert_from('\\x81', 'WIN1252'))")
    until(lambda: "0x81" in relay.get("/readyz")[1], 20, lambda: f"{relay.get('/readyz')}")
    findings = outbox.doctor()[1]
    assert "keeps the relay from reading any row" in findings["encoding"]["why"], findings
    outbox.sql("UPDATE outbox_messages SET destination = NULL")
    until(lambda: outbox.states() == {"Processed": 2}, 30, lambda: f"{outbox.states()}")


def grants_of(outbox, role="relay"):
    done = outbox.command("init", "--grants", role)
    assert done.returncode == 0, done
    return [line for line in done.stdout.splitlines() if line]


@pytest.fixture(name="least")
def make_least(server, outbox):
    """A role that has what init --grants prints, and nothing else."""
    role = f"relay_{outbox.database}"
    server.psql(f"CREATE ROLE {role} LOGIN")
    # What the server gives to everybody must not help.
    outbox.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC; "
               f"REVOKE ALL ON DATABASE {outbox.database} FROM PUBLIC; "
               f"GRANT CONNECT ON DATABASE {outbox.database} TO {role}")
    outbox.sql("\n".join(grants_of(outbox, role)))
    yield role
    outbox.sql(f"DROP OWNED BY {role}")
    server.psql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_the_role_of_init_grants_can_do_everything(world, outbox, least):
    receiver = world.receiver()
    receiver.rules({"types": ["asset.poison"], "status": 422})
    for name in ("bad-1", "bad-2"):
        outbox.insert(name, "asset.poison")
    outbox.insert("good")
    outbox.url = outbox.url_of(least)
    relay = world.relay(outbox, receiver, {"audit": {"attempts": "all"}, "retention": {
        "processed": "0s", "attempts": "0s", "interval": "1s"}})
    until(lambda: outbox.states() == {"DeadLettered": 2}, 30,
          lambda: f"delivered and cleaned up: {outbox.states()}")
    assert outbox.command("pause", role=least).returncode == 0
    assert outbox.command("resume", role=least).returncode == 0
    assert outbox.command("messages", "find", role=least).returncode == 0
    assert outbox.command("messages", "show", "bad-1", role=least).returncode == 0
    assert outbox.command("status", role=least).returncode in (0, 1)
    assert outbox.command("init", "--check", role=least).returncode == 0
    done = outbox.command("dead-letters", "discard", "bad-1", "--yes", role=least)
    assert done.returncode == 0, done
    receiver.rules()
    done = outbox.command("dead-letters", "redrive", "--yes", role=least)
    assert done.returncode == 0, done
    until(lambda: outbox.states() == {}, 30, lambda: f"redriven: {outbox.states()}")
    assert relay.metric("store_faults_total", operation="turn") == 0
    assert relay.stop() == 0
    assert "grant_missing" not in outbox.doctor(role=least)[1]



def revocations(outbox, role):
    """Each single privilege that init --grants gives."""
    for line in grants_of(outbox, role):
        match = re.match(r'GRANT (.*) ON (.*) TO "[^"]*";', line)
        columns = re.fullmatch(r"UPDATE \((.*)\)", match.group(1))
        if columns:
            yield from ((f"UPDATE ({name})", match.group(2)) for name in columns.group(1).split(", "))
        else:
            yield from ((privilege, match.group(2)) for privilege in match.group(1).split(", "))


def test_doctor_names_each_grant_that_is_revoked(outbox, least):
    pairs = list(revocations(outbox, least))
    assert len(pairs) > 25
    for privilege, thing in pairs:
        outbox.sql(f'REVOKE {privilege} ON {thing} FROM "{least}"')
        done = outbox.command("doctor", "-o", "json", role=least)
        kind, name = privilege.split()[0], thing.split()[-1].split(".")[-1].strip('"')
        assert done.returncode == 1, (privilege, thing, done.stdout)
        findings = outbox.doctor(role=least)[1]
        finding = findings["grant_missing"]
        assert kind in finding["fix"] and name in finding["fix"], (privilege, thing, finding)
        outbox.sql(finding["fix"])
        assert "grant_missing" not in outbox.doctor(role=least)[1], (privilege, thing)


def test_policies_that_hide_rows_from_the_role_are_named(outbox, least):
    outbox.insert("hidden")
    outbox.sql("ALTER TABLE outbox_messages ENABLE ROW LEVEL SECURITY")
    finding = outbox.doctor(role=least)[1]["row_security"]
    apply(outbox, finding)
    assert [row["id"] for row in outbox.lines("messages", "find", role=least)] == ["hidden"]


FOREIGN = """
CREATE SCHEMA orders;
CREATE TABLE orders."OutboxMessages" ("Id" uuid PRIMARY KEY, "Type" text NOT NULL,
  "Content" jsonb NOT NULL, "OccurredOnUtc" timestamptz NOT NULL, "ProcessedOnUtc" timestamptz,
  "Error" text);
INSERT INTO orders."OutboxMessages" SELECT gen_random_uuid(), 'order.placed',
  jsonb_build_object('n', n), clock_timestamp() - n * interval '1 day', NULL
  FROM generate_series(0, 4) AS n;
"""


def test_a_table_that_is_there_already_is_detected_and_adopted(world, server):
    outbox = postgres.PostgresOutbox(server, create=False)
    outbox.sql(FOREIGN)
    done = outbox.command("mapping", "detect")
    assert done.returncode == 0 and "orders.OutboxMessages" in done.stdout, done
    assert "preset: dotnet" in done.stdout and "rows that would be sent: 5; the first:" in done.stdout
    assert '{"n": 4}' in done.stdout, done.stdout
    assert outbox.sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'outbox_relay%'") == "0"
    table = ["--table", "orders.OutboxMessages", "--preset", "dotnet"]
    assert outbox.command("init", "--apply", *table).returncode == 0
    findings = outbox.doctor(*table)[1]
    assert "not_adopted" in findings and "query_plan" in findings, findings
    done = outbox.command("adopt", "--skip-older", "--dry-run", *table)
    assert done.returncode == 0 and "1 row" in done.stdout + done.stderr, done
    receiver = world.receiver()
    settings = {"store": {"table": "orders.OutboxMessages", "preset": "dotnet"}}
    relay = world.relay(outbox, receiver, settings, start=False)
    relay.start(wait=False)
    until(lambda: "adopt" in relay.get("/readyz")[1], 20, lambda: relay.get("/readyz"))
    assert outbox.command("adopt", "--skip-older", *table).returncode == 0
    done_rows = 'SELECT count(*) FROM orders."OutboxMessages" WHERE "ProcessedOnUtc" IS NOT NULL'
    until(lambda: outbox.sql(done_rows) == "1", 20, lambda: relay.get("/readyz"))
    assert outbox.command("adopt", "--all", *table).returncode == 0
    until(lambda: outbox.sql(done_rows) == "5", 20, lambda: outbox.sql(done_rows))
    apply(outbox, outbox.doctor(*table)[1]["query_plan"])
    assert "query_plan" not in outbox.doctor(*table)[1]


def test_init_check_tells_what_is_missing(server):
    outbox = postgres.PostgresOutbox(server, create=False)
    done = outbox.command("init", "--check")
    assert done.returncode == 5 and "outbox_relay_leases" in done.stdout, done
    assert outbox.command("init", "--apply").returncode == 0
    assert outbox.command("init", "--check").returncode == 0


STATELESS = """
CREATE SCHEMA orders;
CREATE TABLE orders.outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL,
  aggregateid text NOT NULL, type text NOT NULL, payload jsonb);
INSERT INTO orders.outbox SELECT gen_random_uuid(), 'order', 'k' || n, 'order.placed',
  jsonb_build_object('n', n) FROM generate_series(0, 4) AS n;
"""


@pytest.mark.parametrize("create,name,preset", [(FOREIGN, "OutboxMessages", "dotnet"),
                                                (STATELESS, "outbox", "debezium")])
def test_on_a_foreign_table_the_role_of_init_grants_suffices_too(world, server, create, name,
                                                                 preset):
    outbox = postgres.PostgresOutbox(server, create=False)
    outbox.sql(create)
    role = f"relay_{outbox.database}"
    server.psql(f"CREATE ROLE {role} LOGIN")
    table = ["--table", f"orders.{name}", "--preset", preset]
    assert outbox.command("init", "--apply", *table).returncode == 0
    done = outbox.command("init", "--grants", role, *table)
    assert done.returncode == 0, done
    outbox.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC; " + done.stdout)
    done = outbox.command("adopt", "--all", *table, role=role)
    assert done.returncode == 0, done
    receiver = world.receiver()
    receiver.rules({"types": ["order.placed"], "status": 422, "times": 1})
    outbox.url = outbox.url_of(role)
    relay = world.relay(outbox, receiver, {
        "store": {"table": f"orders.{name}", "preset": preset},
        "retention": {"processed": "0s", "interval": "1s"}})
    left = f'SELECT count(*) FROM orders."{name}"'
    until(lambda: outbox.sql(left) == "1", 30, lambda: f"{outbox.sql(left)} are left")
    letters = outbox.lines("dead-letters", "list", *table, role=role)
    assert len(letters) == 1, letters
    done = outbox.command("dead-letters", "redrive", "--yes", *table, role=role)
    assert done.returncode == 0, done
    until(lambda: outbox.sql(left) == "0", 30, "the redriven one is delivered and removed")
    assert "grant_missing" not in outbox.doctor(*table, role=role)[1]
    assert relay.stop() == 0
    outbox.sql(f"DROP OWNED BY {role}")
    server.psql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_relay_that_samples_and_cleans_up_has_two_connections_at_most(world, outbox):
    outbox.sql("INSERT INTO outbox_messages (id, event_type, payload, status, processed_on_utc) "
               "SELECT 'old-' || n, 't', '', 'Processed', clock_timestamp() - interval '2 days' "
               "FROM generate_series(1, 20000) AS n")
    world.relay(outbox, "null:", {"retention": {"processed": "24h", "interval": "1s", "chunk": 100},
                                  "metrics": {"sampleInterval": "1s"}})
    seen = set()

    def cleaned():
        seen.add(int(outbox.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = "
                                "current_database() AND application_name LIKE 'outbox-relay%'")))
        return outbox.states() == {}

    until(cleaned, 60, "the old rows are gone")
    assert max(seen) <= 2, seen


@pytest.mark.skipif(not os.path.exists(postgres.pgbouncer.POOLER), reason="no pgbouncer")
def test_the_commands_work_through_a_pooler_and_doctor_knows_it(world, server, scene):
    outbox, receiver, _ = scene
    pooler = postgres.pgbouncer.PgBouncer(server, pool=2)
    world.finally_do(pooler.stop)
    pooler.start()
    url = f"postgres://postgres@127.0.0.1:{pooler.port}/{outbox.database}"
    receiver.rules()
    for words in (["init", "--check"], ["init", "--grants", "relay"], ["status"],
                  ["messages", "find", "--state", "dead-lettered"], ["messages", "show", "good"],
                  ["dead-letters", "list"], ["dead-letters", "export"], ["pause"], ["resume"],
                  ["dead-letters", "discard", "bad-2", "--yes"],
                  ["dead-letters", "redrive", "--yes"], ["mapping", "detect"]):
        done = run_command(*words, "--store", url)
        assert done.returncode == 0 or words == ["status"], done
    until(lambda: outbox.states() == {"Processed": 2}, 20, lambda: f"{outbox.states()}")
    done = run_command("doctor", "--store", url, "-o", "json")
    assert "pooler" in {finding["code"] for finding in json.loads(done.stdout)}, done
    assert "pooler" not in outbox.doctor()[1]
