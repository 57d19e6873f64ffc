"""doctor names what is wrong and how to mend it; mended so, it is content."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness.outbox import Outbox
from harness.process import die_with_parent, kill_and_reap
from harness.relay import ROOT, binary, run_command
from harness.waiting import until

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run as another user or"
                                                          " for a small file system")
# What every healthy outbox of these tests is told.
ALWAYS = {"synchronous_unknown", "file_system"}


def doctor(outbox, *arguments, **options):
    """(exit code, findings by code)."""
    done = run_command("doctor", "--store", outbox.url, "-o", "json", *arguments, **options)
    findings = json.loads(done.stdout)
    for finding in findings:
        assert finding["severity"] in ("information", "warning", "error"), finding
        assert finding["what"] and finding["why"], finding
        assert finding["fix"] or finding["severity"] == "information", finding
    order = ["error", "warning", "information"]
    ranks = [order.index(finding["severity"]) for finding in findings]
    assert ranks == sorted(ranks), "the worst first"
    return done.returncode, {finding["code"]: finding for finding in findings}


def content(outbox, *arguments):
    code, findings = doctor(outbox, *arguments)
    serious = {name for name, one in findings.items() if one["severity"] != "information"}
    return code == 0 and not serious


def apply(outbox, finding):
    assert finding["fixKind"] == "sql", finding
    done = subprocess.run(["sqlite3", "-bail", outbox.path], input=finding["fix"] + "\n", text=True,
                          capture_output=True, timeout=30)
    assert done.returncode == 0 and not done.stderr, f"{finding['fix']}: {done.stderr}"


def shell(finding, folder):
    """Runs a fix that is a command, as it stands."""
    assert finding["fixKind"] == "command", finding
    environment = {**os.environ, "PATH": f"{os.path.dirname(binary())}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", finding["fix"]], cwd=folder, text=True,
                          env=environment, capture_output=True, timeout=30)
    assert done.returncode == 0, f"{finding['fix']}: {done.stderr}"


def found(outbox, name, severity, *arguments, exit_code=1):
    code, findings = doctor(outbox, *arguments)
    assert name in findings, findings
    assert findings[name]["severity"] == severity and code == exit_code, (code, findings[name])
    return findings[name]


def test_a_healthy_outbox_gets_notes_only(world):
    outbox = world.outbox()
    code, findings = doctor(outbox)
    assert code == 0 and set(findings) <= ALWAYS, findings
    table = run_command("doctor", "--store", outbox.url)
    assert table.returncode == 0 and "synchronous" in table.stdout and "\x1b" not in table.stdout
    assert "0 errors, 0 warnings" in table.stderr


def test_a_doctors_visit_changes_nothing(world):
    outbox = world.outbox()
    outbox.insert_many(3)
    with outbox.connection() as kept:
        before = kept.execute("PRAGMA data_version").fetchone(), sorted(os.listdir(world.folder))
        assert doctor(outbox)[0] == 0
        after = kept.execute("PRAGMA data_version").fetchone(), sorted(os.listdir(world.folder))
        assert before == after


def test_a_missing_file_is_not_reachable_and_the_fix_makes_it(world):
    outbox = world.outbox(create=False)
    finding = found(outbox, "database_missing", "error", exit_code=3)
    assert not os.path.exists(outbox.path)
    shell(finding, world.folder)
    assert content(outbox)


def test_a_table_made_by_hand_lacks_indexes_and_the_relays_own_tables(world):
    """The relay makes its own tables: that is a note. What follows is looked at all the same."""
    outbox = world.outbox(create=False)
    outbox.make("""CREATE TABLE outbox_messages (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        event_type TEXT NOT NULL, ordering_key TEXT, destination TEXT, content_type TEXT,
        headers TEXT, traceparent TEXT, occurred_on_utc TEXT, not_before_utc TEXT,
        status TEXT NOT NULL DEFAULT 'Pending', retry_count INTEGER NOT NULL DEFAULT 0,
        next_attempt_on_utc TEXT, last_error TEXT, processed_on_utc TEXT,
        dead_letter_reason TEXT, payload BLOB NOT NULL)""")
    outbox.insert(headers="{", occurred_on_utc="2026-01-01")
    own = found(outbox, "relay_tables_missing", "information")
    index = found(outbox, "index_missing", "warning")
    assert found(outbox, "broken_rows", "warning")
    assert "\n" not in own["fix"] and "outbox-relay init" in own["fix"], "nothing has to be done"
    assert "CREATE INDEX" in index["fix"]
    denied = found(outbox, "relay_tables_missing", "error",
                   "--set", "store.createRelayTables=false")
    assert "CREATE TABLE" in denied["fix"]
    apply(outbox, denied)
    while "index_missing" in (findings := doctor(outbox)[1]):
        apply(outbox, findings["index_missing"])
    outbox.query("UPDATE outbox_messages SET headers = NULL")
    assert content(outbox)


def test_a_missing_table_is_named_with_the_statement_that_makes_it(world):
    outbox = world.outbox()
    outbox.query("ALTER TABLE outbox_messages RENAME TO events_to_send")
    finding = found(outbox, "table_missing", "error")
    assert "events_to_send" in finding["what"], "perhaps that one is meant"
    outbox.query("DROP TABLE events_to_send")
    apply(outbox, finding)
    assert content(outbox), "one round is enough"


NO_INDEX = "DROP INDEX outbox_messages_failed"
INDEX = "CREATE INDEX outbox_messages_failed ON outbox_messages"


@pytest.mark.parametrize("name, severity, damage", [
    pytest.param("column_missing", "error",
                 ["ALTER TABLE outbox_messages DROP COLUMN destination"], id="a missing column"),
    pytest.param("journal_mode", "error", ["PRAGMA journal_mode=DELETE"], id="another journal"),
    pytest.param("index_unfit", "warning",
                 [NO_INDEX, f"{INDEX} (sequence) WHERE status = 'Processed'"],
                 id="an index of that name for other rows"),
    pytest.param("index_unfit", "warning",
                 [NO_INDEX, f"{INDEX} (sequence, next_attempt_on_utc) WHERE status = 'Failed'"],
                 id="an index of that name in another order"),
    pytest.param("relay_tables_outdated", "error",
                 ["ALTER TABLE outbox_relay_rows DROP COLUMN takeovers",
                  "DELETE FROM outbox_relay_meta WHERE name = 'schema_major'"],
                 id="outdated tables of the relay's own"),
    pytest.param("relay_tables_outdated", "warning", ["DROP INDEX outbox_relay_rows_waiting"],
                 id="a missing index of the relay's own"),
])
def test_what_is_damaged_is_found_and_mended_by_the_fix(world, name, severity, damage):
    outbox = world.outbox()
    for statement in damage:
        outbox.query(statement)
    apply(outbox, found(outbox, name, severity))
    assert content(outbox)


def test_a_missing_index_is_found_and_on_a_large_table_the_query_plan_too(world):
    outbox = world.outbox()
    outbox.query("DROP INDEX outbox_messages_pending")
    with outbox.connection() as database:
        database.execute("INSERT INTO outbox_messages (id, event_type, payload, status)"
                         " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                         " WHERE i < 12000) SELECT i, 't', '', 'Processed' FROM n")
    found(outbox, "query_plan", "warning")
    apply(outbox, found(outbox, "index_missing", "warning"))
    assert content(outbox)


def test_an_index_written_in_another_way_is_as_good(world):
    outbox = world.outbox()
    outbox.query("DROP INDEX outbox_messages_failed")
    outbox.query('create index OUTBOX_MESSAGES_FAILED on "outbox_messages"'
                 '("next_attempt_on_utc" , sequence)\n where "status"=\'Failed\'')
    assert content(outbox)


def test_a_database_in_utf_16_is_an_error_and_the_command_converts_it(world):
    outbox = world.outbox(create=False)
    with outbox.connection() as database:
        database.execute("PRAGMA encoding='UTF-16le'")
        database.execute("CREATE TABLE other (x)")
        database.execute("PRAGMA journal_mode=WAL")
    refused = run_command("init", "--apply", "--store", outbox.url)
    assert refused.returncode == 1 and "UTF-16" in refused.stderr
    with outbox.connection() as database:
        database.executescript(run_command("init", "--store", outbox.url).stdout)
    outbox.insert(event_type="caf\u00e9")
    finding = found(outbox, "encoding", "error")
    shell(finding, world.folder)
    converted = Outbox(world.folder, "app.db.utf8", create=False)
    assert content(converted)
    assert converted.value("SELECT event_type FROM outbox_messages") == "caf\u00e9"


def test_relay_tables_of_a_newer_major_are_an_error(world):
    outbox = world.outbox()
    outbox.query("UPDATE outbox_relay_meta SET value = 99 WHERE name = 'schema_major'")
    finding = found(outbox, "relay_tables_newer", "error")
    assert "99" in finding["what"]


def test_texts_from_outside_can_neither_move_a_terminal_nor_look_like_a_finding(world):
    outbox = world.outbox()
    outbox.insert(status="DeadLettered", event_type="x\nerror: made_up\n\x1b[2J")
    done = run_command("doctor", "--store", outbox.url)
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert "\nerror: made_up" not in done.stdout and "made_up" in done.stdout


def test_rows_with_unknown_states_are_named_and_revived_by_the_fix(world):
    outbox = world.outbox()
    outbox.insert_many(2, status="In'Progress")
    outbox.insert_many(1, status="pending")
    finding = found(outbox, "unknown_state", "warning")
    assert "In''Progress" in finding["what"] and "(2)" in finding["what"]
    apply(outbox, finding)
    assert content(outbox) and outbox.states() == {"Pending": 3}


def test_broken_rows_among_the_next_are_named_with_what_is_wrong(world):
    outbox = world.outbox()
    outbox.insert_many(3)
    bad = outbox.insert(headers='{"a": [}')
    finding = found(outbox, "broken_rows", "warning")
    assert bad in finding["what"] and "headers" in finding["what"] and "1 of" in finding["what"]
    assert outbox.leases() == 0 and outbox.states() == {"Pending": 4}


def test_a_trigger_that_fires_on_the_relays_updates_is_found_others_are_not(world):
    outbox = world.outbox()
    outbox.query("CREATE TRIGGER a AFTER UPDATE OF payload ON outbox_messages BEGIN SELECT 1; END")
    outbox.query("CREATE TRIGGER b AFTER INSERT ON outbox_messages BEGIN SELECT 1; END")
    assert content(outbox)
    outbox.query("CREATE TRIGGER \"my c\" AFTER UPDATE ON outbox_messages BEGIN SELECT 1; END")
    finding = found(outbox, "update_trigger", "warning")
    assert "my c" in finding["what"]
    apply(outbox, finding)
    assert content(outbox)


def test_a_clock_of_the_application_that_runs_ahead_is_found(world):
    outbox = world.outbox()
    row_id = outbox.insert_expression("x", occurred_on_utc="datetime('now', '+2 hours')")
    finding = found(outbox, "clock", "warning")
    assert "UTC" in finding["fix"]
    outbox.query("UPDATE outbox_messages SET occurred_on_utc = datetime('now') WHERE id = ?",
                 row_id)
    assert content(outbox)


def test_an_isolated_circuit_and_a_pause_are_told_with_the_reason(world):
    outbox = world.outbox()
    done = run_command("broker", "isolate", "--store", outbox.url, "--reason", "maintenance")
    assert done.returncode == 0, done.stderr
    finding = found(outbox, "circuit_isolated", "warning")
    assert "maintenance" in finding["what"]
    shell(finding, world.folder)
    assert content(outbox)
    assert run_command("pause", "--store", outbox.url, "--reason", "release").returncode == 0
    finding = found(outbox, "outbox_paused", "warning")
    assert "release" in finding["what"]
    shell(finding, world.folder)
    assert content(outbox)


def test_a_held_write_lock_is_found_with_its_holder_and_a_busy_writer_is_none(world):
    outbox = world.outbox()
    outbox.insert()
    writer = subprocess.Popen(
        ["sqlite3", outbox.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        bufsize=1, preexec_fn=die_with_parent)
    try:
        writer.stdin.write("BEGIN IMMEDIATE; SELECT 'held';\n")
        writer.stdin.flush()
        assert writer.stdout.readline().strip() == "held"
        finding = found(outbox, "write_lock_held", "error")
        assert str(writer.pid) in finding["what"] and "sqlite3" in finding["what"]
        writer.stdin.write("COMMIT; SELECT 'free';\n")
        writer.stdin.flush()
        assert writer.stdout.readline().strip() == "free"
        assert content(outbox)
    finally:
        kill_and_reap(writer)
    busy = world.writer(outbox)
    until(lambda: outbox.states()["Pending"] > 20, 10, "it writes")
    assert "write_lock_held" not in doctor(outbox)[1]
    busy.close()


def test_a_log_that_a_reader_holds_back_is_found_with_the_reader(world):
    outbox = world.outbox()
    with outbox.connection() as reader:
        outbox.insert_many(10)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM outbox_messages").fetchall()
        outbox.insert_many(300, payload=b"x" * 10_000)
        finding = found(outbox, "wal_size", "warning", "--set", "store.walLimit=1MiB")
        assert str(os.getpid()) in finding["what"]
        assert content(outbox), "under the limit it is nothing"
        reader.execute("COMMIT")
        apply(outbox, finding)
        assert content(outbox, "--set", "store.walLimit=1MiB")


def test_a_dead_relay_with_leases_is_found_and_its_lock_file(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"hang": True})
    relay = world.relay(outbox, receiver, {"brokers": {"main": {"publishTimeout": "3s"}}})
    outbox.insert_many(5)
    receiver.wait_for_requests(1, 10)
    assert "dead_relay" not in doctor(outbox)[1], "it lives"
    relay.signal(signal.SIGKILL)
    relay.process.wait()
    finding = found(outbox, "dead_relay", "warning")
    assert "5 rows" in finding["what"] and str(relay.process.pid) in finding["what"]
    receiver.rules()
    relay.start()
    until(outbox.all_processed, 15, "taken over")
    assert content(outbox)
    relay.signal(signal.SIGKILL)
    relay.process.wait()
    outbox.query("DELETE FROM outbox_relay_incarnations")
    finding = found(outbox, "stale_lock_files", "information", exit_code=0)
    shell(finding, world.folder)
    assert "stale_lock_files" not in doctor(outbox)[1]


def test_dead_letters_and_the_backlogs_age_are_notes(world):
    outbox = world.outbox()
    outbox.insert(status="DeadLettered", dead_letter_reason="permanent")
    outbox.insert(occurred_on_utc="2026-01-01T00:00:00Z")
    code, findings = doctor(outbox)
    assert code == 0 and "asset.created" in findings["dead_letters"]["what"]
    assert findings["backlog"]["what"].startswith("1 event waits")
    shell(findings["dead_letters"], world.folder)
    assert outbox.url in findings["dead_letters"]["fix"]


def test_fixes_that_are_commands_name_the_store_as_the_doctor_was_told_of_it(world):
    """A configuration may say more than a few flags can: it is named again."""
    outbox = world.outbox()
    assert run_command("pause", "--store", outbox.url, "--reason", "x").returncode == 0
    path = os.path.join(world.folder, "my relay.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"store: {{ url: '{outbox.url}' }}\nbrokers: {{ main: {{ url: 'null:' }} }}\n")

    def fix(*arguments):
        done = run_command("doctor", "-o", "json", *arguments)
        return next(one for one in json.loads(done.stdout) if one["code"] == "outbox_paused")

    assert fix("--config", path)["fix"] == f"outbox-relay resume --config '{path}'"
    both = fix("--config", path, "--set", "store.walLimit=1MiB", "--set", "relay.batchSize=7")
    assert both["fix"].endswith("--set store.walLimit=1MiB"), "what is not about the store is not"
    shell(both, world.folder)
    assert content(outbox)


def test_what_is_no_database_is_told_as_such(world):
    path = os.path.join(world.folder, "app.db")
    with open(path, "wb") as file:
        file.write(b"no database at all, but long enough to be looked at" * 100)
    outbox = world.outbox(create=False)
    finding = found(outbox, "database_unreadable", "error", exit_code=3)
    assert "damaged or no SQLite database" in finding["what"]


def test_a_name_that_is_a_view_is_told_as_such(world):
    outbox = world.outbox()
    outbox.query("ALTER TABLE outbox_messages RENAME TO real_one")
    outbox.query("CREATE VIEW outbox_messages AS SELECT * FROM real_one")
    code, findings = doctor(outbox)
    assert code == 1 and "table_unsuitable" in findings, findings


@NEEDS_ROOT
def test_a_file_that_may_not_be_written_is_told_to_the_user_who_may_not(world):
    folder = os.path.join(world.folder, "data")
    os.mkdir(folder)
    outbox = Outbox(folder)
    shutil.copy(binary(), os.path.join(world.folder, "program"))
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
               os.path.join(world.folder, "program"), "doctor", "--store", outbox.url, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    findings = json.loads(done.stdout)
    assert done.returncode == 3 and {one["code"] for one in findings} >= {"no_permission"}
    for finding in findings:
        if finding["code"] == "no_permission":
            shell(finding, world.folder)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout


def small_volume(world):
    folder = os.path.join(world.folder, "small")
    os.mkdir(folder)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"can't mount a small file system here: {mounted.stderr.strip()}")
    world.finally_do(lambda: subprocess.run(["umount", "-l", folder], check=True))
    return folder


@NEEDS_ROOT
def test_a_disk_that_is_nearly_full_is_told(world):
    found(Outbox(small_volume(world)), "disk_space", "error")


@NEEDS_ROOT
def test_a_volume_that_nobody_may_write_to_is_no_matter_of_modes(world):
    folder = small_volume(world)
    outbox = Outbox(folder)
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    finding = found(outbox, "read_only", "error", exit_code=3)
    assert "chmod" not in finding["fix"]


def test_a_lease_term_too_short_is_no_valid_configuration_and_a_tight_one_is_a_note(world):
    outbox = world.outbox()
    settings = ["--set", "brokers.main.publishTimeout=5s", "--broker", "null:"]
    done = run_command("doctor", "--store", outbox.url, *settings, "--set", "relay.leaseTerm=10s")
    assert done.returncode == 78 and "leaseTerm" in done.stderr
    found(outbox, "lease_term", "information", *settings, "--set", "relay.leaseTerm=16s",
          exit_code=0)


def test_a_large_table_does_not_take_the_doctor_long(world):
    outbox = world.outbox()
    with outbox.connection() as database:
        database.execute("INSERT INTO outbox_messages (id, event_type, payload, status)"
                         " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                         " WHERE i < 300000) SELECT i, 't', zeroblob(200), 'Processed' FROM n")
    start = time.monotonic()
    assert content(outbox)
    assert time.monotonic() - start < 15


def codes_in(*sources):
    known = set()
    for path in sources:
        text = path.read_text(encoding="utf-8")
        for value in re.findall(r"\.code =([^;]*?),\n", text):
            known |= set(re.findall(r'"([a-z_0-9]+)"', value))
        known |= set(re.findall(r'"(broker_[a-z]+)"', text))
    return known


SHARED_FINDINGS = pathlib.Path(ROOT) / "storage" / "mapping" / "findings.cpp"


def test_the_page_lists_exactly_the_codes_that_the_program_knows():
    root = pathlib.Path(ROOT)
    known = codes_in(*(root / "storage" / "sqlite").glob("doctor*.cpp"), SHARED_FINDINGS,
                     *(root / "relay" / "app").glob("command_*.cpp"),
                     root / "publishers" / "http" / "broker_test.cpp")
    page = (root / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert len(known) > 30 and known <= listed, known - listed
    elsewhere = codes_in(*(root / "storage" / "postgres").glob("doctor*.cpp"))
    conditions = {"table", "ready", "drained"}
    assert listed - known - elsewhere - conditions == set()


def test_the_page_of_postgresql_lists_exactly_the_codes_of_its_doctor():
    root = pathlib.Path(ROOT)
    known = codes_in(*(root / "storage" / "postgres").glob("doctor*.cpp"), SHARED_FINDINGS)
    page = (root / "docs" / "postgresql.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]*\| (`[a-z_`, ]+`) \|$", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert len(known) > 20 and known == listed, known ^ listed


DOTNET = """CREATE TABLE "OutboxMessages" ("Id" TEXT NOT NULL PRIMARY KEY, "Type" TEXT NOT NULL,
    "Content" TEXT NOT NULL, "OccurredOnUtc" TEXT NOT NULL, "ProcessedOnUtc" TEXT, "Error" TEXT)"""
DOTNET_ROWS = """INSERT INTO "OutboxMessages" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT
    i + 1 FROM n WHERE i < 12000) SELECT i, 't', '{}', '2026-01-01', '2026-01-02', NULL FROM n"""
DEBEZIUM = """CREATE TABLE outbox (id TEXT PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT,
    type TEXT, payload TEXT)"""


def foreign(world, ddl, rows):
    outbox = world.outbox(create=False)
    outbox.make(ddl, rows)
    return outbox


def test_a_table_of_dotnet_gets_the_one_index_that_it_needs(world):
    outbox = foreign(world, DOTNET, DOTNET_ROWS)
    flags = ("--preset", "dotnet", "--table", "OutboxMessages")
    apply(outbox, found(outbox, "query_plan", "warning", *flags))
    assert content(outbox, *flags)


def test_old_rows_of_a_foreign_table_have_to_be_adopted_first(world):
    outbox = foreign(world, DOTNET, """INSERT INTO "OutboxMessages" VALUES
        ('1', 't', '{}', '2026-01-01', NULL, NULL),
        ('2', 't', '{}', datetime('now'), NULL, NULL)""")
    flags = ("--preset", "dotnet", "--table", "OutboxMessages")
    finding = found(outbox, "not_adopted", "error", *flags)
    assert finding["what"].startswith("1 row of")
    for choice in ("--all", "--since", "--skip-older"):
        assert choice in finding["fix"], "no choice is made for anybody"
    assert finding["fix"].index("--skip-older") < finding["fix"].index("--all")
    assert run_command("adopt", "--skip-older", "--store", outbox.url, *flags).returncode == 0
    assert content(outbox, *flags)


def test_a_foreign_table_whose_columns_have_changed_since_has_to_be_adopted_anew(world):
    outbox = foreign(world, DOTNET, """INSERT INTO "OutboxMessages" VALUES
        ('1', 't', '{}', '2026-01-01', NULL, NULL)""")
    flags = ("--preset", "dotnet", "--table", "OutboxMessages")
    assert run_command("adopt", "--all", "--store", outbox.url, *flags).returncode == 0
    outbox.query('ALTER TABLE "OutboxMessages" ADD COLUMN "Status" TEXT DEFAULT \'Pending\'')
    finding = found(outbox, "adopted_otherwise", "error", *flags)
    assert "store.columns.status: ''" in finding["fix"] and "adopt" in finding["fix"]
    assert run_command("adopt", "--all", "--store", outbox.url, *flags).returncode == 0
    assert content(outbox, *flags)


def test_a_state_column_that_says_nothing_is_not_taken_for_an_answer(world):
    """A migration adds a status that nobody has filled yet."""
    outbox = foreign(world, DOTNET, DOTNET_ROWS.replace("'2026-01-02'",
                                                        "iif(i % 2, '2026-01-02', NULL)"))
    flags = ("--preset", "dotnet", "--table", "OutboxMessages")
    assert run_command("adopt", "--all", "--store", outbox.url, *flags).returncode == 0
    outbox.query('ALTER TABLE "OutboxMessages" ADD COLUMN "Status" TEXT NOT NULL DEFAULT \'\'')
    assert "columns.status: ''" in found(outbox, "adopted_otherwise", "error", *flags)["fix"]
    before = ("--set", "store.columns.status=", *flags)
    assert "adopted_otherwise" not in doctor(outbox, *before)[1], "as before"

    adopted = run_command("adopt", "--all", "--store", outbox.url, *flags)
    assert adopted.returncode == 1 and "12000 rows stand in states" in adopted.stderr, adopted
    assert "--leave-others" in adopted.stderr and adopted.stdout == ""
    apply(outbox, found(outbox, "unknown_state", "warning", *flags))
    taken = outbox.value("""SELECT count(*) FROM "OutboxMessages" WHERE "Status" = 'Pending'""")
    assert taken == 6000, "what was sent once is not to be sent again"
    adopted = run_command("adopt", "--all", "--store", outbox.url, *flags)
    assert adopted.returncode == 0 and adopted.stdout == "6000 rows to be sent, 0 skipped\n"
    assert "6000 rows stand in states that the relay does not know" in adopted.stderr


def test_states_that_are_no_text_are_mended_as_they_are(world):
    outbox = foreign(world, DOTNET.replace('"Error" TEXT)', '"Error" TEXT, "Status")'), """
        INSERT INTO "OutboxMessages" VALUES ('1', 't', '{}', datetime('now'), NULL, NULL, NULL),
        ('2', 't', '{}', datetime('now'), NULL, NULL, 7), ('3', 't', '{}', datetime('now'), NULL,
        NULL, '7'), ('4', 't', '{}', datetime('now'), NULL, NULL, 'it''s')""")
    flags = ("--preset", "dotnet", "--table", "OutboxMessages")
    apply(outbox, found(outbox, "unknown_state", "warning", *flags))
    assert "unknown_state" not in doctor(outbox, *flags)[1]
    assert outbox.value("""SELECT count(*) FROM "OutboxMessages" WHERE "Status" = 'Pending'""") == 4


def test_rows_that_have_no_key_are_found(world):
    outbox = foreign(world, DOTNET.replace("TEXT NOT NULL PRIMARY KEY", "PRIMARY KEY"),
                     """INSERT INTO "OutboxMessages" VALUES (NULL, 't', '{}', '', NULL, NULL),
        (1.5, 't', '{}', datetime('now'), NULL, NULL)""")
    flags = ("--preset", "dotnet", "--table", "OutboxMessages")
    finding = found(outbox, "unkeyed_rows", "warning", *flags)
    assert finding["what"].startswith("2 rows of")


def test_a_table_too_large_to_be_ordered_without_an_index_is_found(world):
    outbox = foreign(world, DEBEZIUM, """INSERT INTO outbox WITH RECURSIVE n (i) AS (SELECT 1 UNION
        ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i, 'a', 'k', 't', '{}' FROM n""")
    flags = ("--preset", "debezium", "--table", "outbox")
    assert run_command("adopt", "--all", "--store", outbox.url, *flags).returncode == 0
    apply(outbox, found(outbox, "key_index_missing", "information", *flags, exit_code=0))
    assert "key_index_missing" not in doctor(outbox, *flags)[1]


def test_a_table_for_another_preset_is_told_of_the_preset_first(world):
    outbox = foreign(world, DOTNET, DOTNET_ROWS)
    path = os.path.join(world.folder, "relay.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("store: { table: OutboxMessages }\n")
    finding = found(outbox, "table_unsuitable", "error", "--config", path)
    assert "store.preset" in finding["what"] and "mapping detect" in finding["what"]
    assert finding["what"].index("mapping detect") < finding["what"].index("outbox-relay init")


def test_a_table_whose_rows_have_no_state_is_looked_at_all_the_same(world):
    outbox = foreign(world, DEBEZIUM, "INSERT INTO outbox VALUES ('1', 'a', 'k', 't', '{}')")
    flags = ("--preset", "debezium", "--table", "outbox")
    finding = found(outbox, "not_adopted", "error", *flags)
    assert "1 row " in finding["what"] and "unknown age" in finding["what"]
    assert finding["fix"].index("--all") < finding["fix"].index("--skip-older"), finding
    assert run_command("init", "--apply", "--store", outbox.url, *flags).returncode == 0
    assert run_command("adopt", "--all", "--store", outbox.url, *flags).returncode == 0
    assert content(outbox, *flags)
    missing = found(outbox, "table_missing", "error", "--preset", "debezium", "--table", "nowhere")
    assert "nowhere" in missing["what"]
    outbox.query("DROP TABLE outbox")
    outbox.query("CREATE TABLE outbox (id TEXT PRIMARY KEY, type TEXT)")
    unsuitable = found(outbox, "table_unsuitable", "error", *flags)
    assert "payload" in unsuitable["what"]
