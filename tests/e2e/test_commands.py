"""The commands a person types."""

import json
import os
import sqlite3
import subprocess

import pytest

from harness.outbox import json_lines, sha
from harness.relay import binary, run_command
from harness.waiting import until
from harness.world import wait_processed


def test_init_prints_statements_that_the_sqlite3_shell_accepts(tmp_path):
    done = run_command("init", "--store", f"sqlite://{tmp_path}/app.db")
    assert done.returncode == 0
    assert not (tmp_path / "app.db").exists(), "it only prints"
    shell = subprocess.run(["sqlite3", "-bail", str(tmp_path / "by-hand.db")], input=done.stdout,
                           text=True, capture_output=True, timeout=30)
    assert shell.returncode == 0 and not shell.stderr, shell.stderr
    assert run_command("init", "--apply", "--store", f"sqlite://{tmp_path}/app.db").returncode == 0
    by_hand, applied = (schema(tmp_path / name) for name in ("by-hand.db", "app.db"))
    assert by_hand == applied
    names = set(applied)
    assert {"outbox_messages", "outbox_relay_leases", "outbox_relay_rows", "outbox_relay_meta",
            "outbox_relay_incarnations", "outbox_relay_brokers", "outbox_relay_attempts",
            "outbox_relay_audit"} <= names


def schema(path):
    with sqlite3.connect(path) as database:
        return dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def test_init_apply_twice_changes_nothing_and_keeps_the_rows(world):
    outbox = world.outbox()
    outbox.insert_many(3)
    before = schema(outbox.path)
    assert run_command("init", "--apply", "--store", outbox.url).returncode == 0
    assert schema(outbox.path) == before and outbox.states() == {"Pending": 3}
    assert outbox.value("PRAGMA journal_mode") == "wal"


def test_the_table_of_the_contract_written_by_hand_is_served(world):
    """Without init: the application made the table, the relay adds its own beside it."""
    outbox, receiver = world.outbox(create=False), world.receiver()
    outbox.make("""CREATE TABLE outbox_messages (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        event_type TEXT NOT NULL, ordering_key TEXT, destination TEXT, content_type TEXT,
        headers TEXT, traceparent TEXT,
        occurred_on_utc TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
        not_before_utc TEXT, status TEXT NOT NULL DEFAULT 'Pending',
        retry_count INTEGER NOT NULL DEFAULT 0, next_attempt_on_utc TEXT, last_error TEXT,
        processed_on_utc TEXT, dead_letter_reason TEXT, payload BLOB NOT NULL)""")
    ids = outbox.insert_many(20)
    world.relay(outbox, receiver)
    receiver.wait_for_ids(ids, 10)
    wait_processed(outbox, 5)
    processed = outbox.query("SELECT processed_on_utc, last_error, next_attempt_on_utc"
                             " FROM outbox_messages")
    assert all(on and error is None and due is None for on, error, due in processed)


def test_validate_tells_the_ladders_span_and_needs_no_network(world):
    relay = world.relay(world.outbox(), "http://127.0.0.1:9/inbox", start=False)
    done = run_command("validate", "--config", relay.config_path)
    assert done.returncode == 0, done.stderr
    assert "ladder" in (done.stdout + done.stderr).lower()


def test_all_that_is_wrong_with_the_store_is_told_where_it_stands(tmp_path):
    file = tmp_path / "relay.yaml"
    file.write_text("store:\n  url: sqlite:a\n  columns: {iD: a}\n  states: {done: 2}\n"
                    "brokers:\n  main: {url: 'null:x'}\n")
    done = run_command("validate", str(file), "--preset", "dotne")
    assert done.returncode == 78 and "4 problems" in done.stderr, done.stderr
    for problem in (f'{file}:3:17: store.columns.iD = "a": there is no', "there are: sequence, id",
                    f'{file}:4:18: store.states.done = "2": there is no',
                    f'{file}:6:15: brokers.main.url = "null:x"',
                    'flag --preset: store.preset = "dotne": SQLite has no preset'):
        assert problem in done.stderr, done.stderr


def test_all_that_is_wrong_with_the_broker_is_told_where_it_stands(tmp_path):
    file = tmp_path / "relay.yaml"
    file.write_text("store: {url: 'sqlite:a'}\nbrokers:\n  main:\n    url: https://h/\n"
                    "    envelope: masstransit\n    bearerTokenFile: no/token\n"
                    "    signingKeyFile: no/keys\n    headers: {Host: h}\n"
                    "    tls: {caFile: no/ca.pem}\n")
    done = run_command("validate", str(file))
    assert done.returncode == 78 and "5 problems" in done.stderr, done.stderr
    for problem in (f'{file}:5:15: brokers.main.envelope = "masstransit": is not part of',
                    f'{file}:6:22: brokers.main.bearerTokenFile = "no/token": the file',
                    f'{file}:7:21: brokers.main.signingKeyFile = "no/keys": the file',
                    f"{file}:8:21: brokers.main.headers.Host: Host is set by the relay",
                    f'{file}:9:19: brokers.main.tls.caFile = "no/ca.pem": no/ca.pem can\'t be loaded: '
                    "No such file or directory"):
        assert problem in done.stderr, done.stderr


def test_validate_takes_one_file_only(tmp_path):
    file = tmp_path / "relay.yaml"
    file.write_text("store: {url: 'sqlite:a'}\nbrokers: {main: {url: 'null:'}}\n")
    assert run_command("validate", str(file)).returncode == 0
    for words in (["validate", str(file), "--config", "other"],
                  ["--config", "other", "validate", str(file)]):
        done = run_command(*words)
        assert done.returncode == 2 and "name one file" in done.stderr


def test_a_reason_of_death_is_no_reason_of_an_order(world):
    outbox = world.outbox()
    for command in ("redrive", "discard"):
        done = run_command("dead-letters", command, "--reason", "oversized", "--yes", "--store",
                           outbox.url)
        assert done.returncode == 2 and "--dead-reason oversized" in done.stderr


@pytest.mark.parametrize("words, see", [
    (["messages", "find", "--sate", "x"], "outbox-relay messages find --help"),
    (["messages", "fnd"], "outbox-relay messages --help"),
    (["--config", "run", "messages", "show"], "outbox-relay messages show --help"),
    (["wait", "--for", "dranied"], "outbox-relay wait --help")])
def test_a_usage_error_names_the_command_whose_help_helps(words, see):
    done = run_command(*words)
    assert done.returncode == 2 and f"See: {see}\n" in done.stderr
    assert '\\"' not in done.stderr


def test_version_says_which_one_and_unknown_words_are_usage_errors():
    done = run_command("version")
    assert done.returncode == 0 and "0." in done.stdout
    for arguments in (["frobnicate"], ["run", "--no-such-flag"], ["run", "--config"]):
        done = run_command(*arguments)
        assert done.returncode == 2, (arguments, done.returncode, done.stderr)
        assert done.stderr and not done.stdout


def test_healthcheck_follows_the_relays_life(world):
    relay = world.relay(world.outbox(), world.receiver())
    assert run_command("healthcheck", "--config", relay.config_path).returncode == 0
    assert relay.stop() == 0
    done = run_command("healthcheck", "--config", relay.config_path)
    assert done.returncode != 0 and done.stderr


def poisoned(world):
    outbox, receiver = world.outbox(), world.receiver()
    bad = outbox.insert_many(3, event_type="asset.poison")
    good = outbox.insert_many(5)
    receiver.rules({"types": ["asset.poison"], "status": 422})
    relay = world.relay(outbox, receiver)
    receiver.wait_for_ids(good, 10)
    until(lambda: outbox.states()["DeadLettered"] == 3, 10, "three dead letters")
    return outbox, receiver, relay, bad


def test_dead_letters_are_listed_with_their_reason(world):
    outbox, _, _, bad = poisoned(world)
    done = run_command("dead-letters", "list", "--store", outbox.url, "-o", "jsonl")
    assert done.returncode == 0, done.stderr
    entries = json_lines(done.stdout)
    assert sorted(entry["id"] for entry in entries) == sorted(bad)
    assert {entry["reason"] for entry in entries} == {"permanent"}
    assert all("422" in entry["lastError"] for entry in entries)
    as_json = json.loads(run_command("dead-letters", "list", "--store", outbox.url,
                                     "-o", "json").stdout)
    assert sorted(entry["id"] for entry in as_json) == sorted(bad)
    table = run_command("dead-letters", "list", "--store", outbox.url).stdout
    assert all(row_id in table for row_id in bad) and "permanent" in table


def test_a_redriven_row_is_delivered_as_a_new_generation_and_audited(world):
    outbox, receiver, relay, bad = poisoned(world)
    receiver.rules()
    done = run_command("dead-letters", "redrive", "--store", outbox.url, "--dry-run", bad[0])
    assert done.returncode == 0 and outbox.states()["DeadLettered"] == 3
    done = run_command("dead-letters", "redrive", "--store", outbox.url, "--yes",
                       "--reason", "the receiver was mended", bad[0])
    assert done.returncode == 0, done.stderr
    receiver.wait_for_ids([bad[0]], 10)
    until(lambda: outbox.row(bad[0])["status"] == "Processed", 5, "settled")
    assert outbox.row(bad[0])["dead_letter_reason"] is None
    assert outbox.states()["DeadLettered"] == 2
    audit = outbox.query("SELECT * FROM outbox_relay_audit")
    redrives = [row for row in audit if "the receiver was mended" in row]
    assert len(redrives) == 1 and bad[0] in str(redrives[0]), audit
    done = run_command("dead-letters", "redrive", "--store", outbox.url, "--yes",
                       "--reason", "all of them")
    assert done.returncode == 0, done.stderr
    receiver.wait_for_ids(bad, 10)
    wait_processed(outbox, 5)


def test_a_command_says_when_the_store_is_not_reachable_or_the_row_not_found(world):
    done = run_command("dead-letters", "list", "--store", f"sqlite://{world.folder}/absent.db")
    assert done.returncode == 3 and "absent.db" in done.stderr
    assert not os.path.exists(os.path.join(world.folder, "absent.db"))
    outbox = world.outbox()
    done = run_command("dead-letters", "redrive", "--store", outbox.url, "--yes",
                       "--reason", "x", "no-such-id")
    assert done.returncode == 4 and "no-such-id" in done.stderr


def test_the_stdout_broker_writes_one_json_line_a_message(world):
    outbox = world.outbox()
    relay = world.relay(outbox, "stdout:", {"relay": {"ordering": "key"}})
    ids = outbox.insert_many(50, payload=b'{"hello": "w\xc3\xb6rld"}', ordering_key="k")
    binary_id = outbox.insert(b"\xff\x00\x01", content_type="application/octet-stream")
    wait_processed(outbox, 10)
    assert relay.stop() == 0
    with open(relay.out_path, encoding="utf-8") as file:
        lines = json_lines(file.read())
    assert [line["id"] for line in lines if line["id"] in set(ids)] == ids
    assert len(lines) == 51
    first = next(line for line in lines if line["id"] == ids[0])
    assert first["type"] == "asset.created" and first["key"] == "k"
    assert first["data"] == {"hello": "w\u00f6rld"}
    import base64

    last = next(line for line in lines if line["id"] == binary_id)
    assert sha(base64.b64decode(last["data_base64"])) == sha(b"\xff\x00\x01")


def test_the_null_broker_takes_everything(world):
    outbox = world.outbox()
    relay = world.relay(outbox, "null:")
    outbox.insert_many(2_000)
    wait_processed(outbox, 20)
    until(lambda: relay.metric("published_total") == 2_000, 5, "counted")


@pytest.mark.parametrize("format_name", ["json", "text"])
def test_the_log_has_neither_payloads_nor_secrets(world, format_name):
    outbox, receiver = world.outbox(), world.receiver()
    secret = os.path.join(world.folder, "token")
    with open(secret, "w", encoding="utf-8") as file:
        file.write("s3cret-token\n")
    relay = world.relay(outbox, receiver, {
        "log": {"format": format_name, "level": "debug"},
        "brokers": {"main": {"bearerTokenFile": secret}}})
    outbox.insert(b'{"card": "4111-1111"}')
    bad = outbox.insert(b'{"card": "4111-1111"}', headers='{"x-token": "hidden-value", "a": [}')
    until(lambda: outbox.unfinished() == 0, 10, "decided")
    assert outbox.row(bad)["status"] == "DeadLettered"
    assert dict(receiver.requests()[0]["headers"])["authorization"] == "Bearer s3cret-token"
    assert relay.stop() == 0
    text = relay.log_text()
    assert "4111-1111" not in text and "s3cret-token" not in text and "hidden-value" not in text
    if format_name == "json":
        assert all({"time", "level", "msg"} <= set(entry) for entry in relay.log())


def test_output_that_can_not_be_written_is_an_error_and_a_closed_pipe_is_none(world):
    outbox = world.outbox()
    outbox.insert()
    store = ("--store", outbox.url)
    commands = [("print-config", "--schema"), ("status", *store), ("messages", "find", *store),
                ("messages", "find", "-o", "json", *store), ("man",), ("completion", "bash"),
                ("version",), ("--help",), ("init", *store)]
    for command in commands:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([binary(), *command], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=30)
        assert done.returncode == 1, (command, done)
        assert "can't write to standard output" in done.stderr, (command, done)
        reading, writing = os.pipe()
        os.close(reading)
        # SIGPIPE is ignored here, as some supervisors hand it down.
        done = subprocess.run([binary(), *command], stdout=writing, stderr=subprocess.PIPE,
                              text=True, timeout=30, restore_signals=False)
        os.close(writing)
        assert "standard output" not in done.stderr, (command, done)


def test_a_healthcheck_prints_the_body_as_json(world):
    outbox = world.outbox()
    relay = world.relay(outbox, "null:")
    done = run_command("healthcheck", "--kind", "ready", "--config", relay.config_path)
    assert done.returncode == 0
    assert json.loads(done.stdout).keys() == json.loads(relay.get("/readyz")[1]).keys()
    os.rename(outbox.path, outbox.path + ".gone")
    until(lambda: relay.get("/readyz")[0] == 503, 10, "not ready")
    done = run_command("healthcheck", "--kind", "ready", "--config", relay.config_path)
    assert done.returncode == 1 and json.loads(done.stderr)


def test_isolating_twice_is_noted_once(world):
    outbox = world.outbox()

    def order(name):
        done = run_command("broker", name, "--store", outbox.url, "--reason", "test")
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "not isolated" in order("close")
    assert "publish nothing" in order("isolate")
    assert "isolated already" in order("isolate")
    assert "publish again" in order("close")
    assert outbox.value("SELECT group_concat(action, ' ') FROM outbox_relay_audit"
                        " WHERE action IN ('isolate', 'close')") == "isolate close"
