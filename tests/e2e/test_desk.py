"""The operator's desk: finding messages, dead letters, pausing."""

import base64
import datetime
import json
import os
import pty
import subprocess
import uuid

import pytest

from harness.outbox import Outbox, json_lines
from harness.relay import binary, run_command
from harness.waiting import until
from harness.world import wait_processed


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def command(outbox, *words, **options):
    return run_command(*words, "--store", outbox.url, **options)


def lines_of(outbox, *words):
    done = command(outbox, *words, "-o", "jsonl")
    assert done.returncode == 0, done
    return json_lines(done.stdout)


@pytest.fixture(name="scene")
def make_scene(world):
    """Three dead letters, one delivered row, and the relay that made them so."""
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"types": ["asset.poison"], "status": 422})
    bad = outbox.insert_many(2, event_type="asset.poison", ordering_key="k\u00e4y")
    bad += outbox.insert_many(1, payload=b"\x00\xff\x01", event_type="asset.poison",
                              content_type="application/octet-stream")
    good = outbox.insert(b'{"price": 7}', headers='{"X-Tenant": "acme"}')
    relay = world.relay(outbox, receiver)
    until(lambda: outbox.states() == {"DeadLettered": 3, "Processed": 1}, 10, "the scene is set")
    return outbox, receiver, relay, bad, good


def test_messages_are_found_by_what_is_known_of_them(scene):
    outbox, _, _, bad, good = scene
    assert [row["id"] for row in lines_of(outbox, "messages", "find")] == [good, *reversed(bad)]
    found = lines_of(outbox, "messages", "find", "--state", "dead-lettered", "--key", "k\u00e4y",
                     "--event-type", "asset.poison", "--since", "1h", "--oldest-first")
    assert [row["id"] for row in found] == bad[:2]
    assert {row["state"] for row in found} == {"dead_lettered"} and found[0]["attempts"] == 1
    assert lines_of(outbox, "messages", "find", "--until", "1h") == []
    assert [row["id"] for row in lines_of(outbox, "messages", "find", good)] == [good]
    done = command(outbox, "messages", "find", "--limit", "2")
    assert len(done.stdout.splitlines()) == 3 and "--limit" in done.stderr
    done = command(outbox, "messages", "find", "--id", "absent")
    assert done.returncode == 4 and "absent" in done.stderr
    done = command(outbox, "messages", "find", "--since", "yesterday")
    assert done.returncode == 2 and "yesterday" in done.stderr and not done.stdout


def test_a_message_is_shown_with_its_attempts_its_audit_and_its_payload(scene):
    outbox, _, _, bad, good = scene
    shown = json.loads(command(outbox, "messages", "show", bad[0], "-o", "json").stdout)
    assert shown["state"] == "dead_lettered" and "payload" not in shown
    assert shown["columns"]["dead_letter_reason"] == "permanent"
    assert [(entry["outcome"], "422" in entry["reason"]) for entry in shown["attemptHistory"]] == [
        ("refused", True)]
    assert [entry["action"] for entry in shown["audit"]] == ["dead_letter"]
    shown = json.loads(command(outbox, "messages", "show", good, "--payload", "-o", "json").stdout)
    assert shown["payload"] == '{"price": 7}' and shown["headers"] == '{"X-Tenant": "acme"}'
    assert shown["attemptHistory"] == [], "a delivery costs no row by default"
    raw = json.loads(command(outbox, "messages", "show", bad[2], "--payload", "-o", "json").stdout)
    assert raw["payloadHex"] == "00ff01" and raw["payloadSize"] == 3
    text = command(outbox, "messages", "show", bad[2], "--payload").stdout
    assert "00 ff 01" in text and "ATTEMPTS" in text and "AUDIT" in text
    assert "next " in text and "redrive or discard it" in text
    assert not any(word in text for word in ("waits_for_recovery", "fingerprint", "boot"))
    assert json.loads(command(outbox, "messages", "show", good, "-o", "json").stdout)[
        "next"] == "nothing: delivered"
    assert command(outbox, "messages", "show", "absent").returncode == 4
    assert command(outbox, "dead-letters", "show", bad[0]).returncode == 0
    assert command(outbox, "dead-letters", "show", good).returncode == 4


@pytest.mark.parametrize("kept,outcomes", [("none", []), ("failures", ["transport"]),
                                           ("all", ["transport", "delivered"])])
def test_the_attempts_that_were_asked_for_are_recorded(world, kept, outcomes):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 503, "times": 1})
    world.relay(outbox, receiver, {"audit": {"attempts": kept}, "retry": {"baseDelay": "10ms"}})
    row_id = outbox.insert()
    wait_processed(outbox, 10)
    shown = json.loads(command(outbox, "messages", "show", row_id, "-o", "json").stdout)
    assert [entry["outcome"] for entry in shown["attemptHistory"]] == outcomes


def test_an_export_has_the_payloads_byte_by_byte(scene, tmp_path):
    outbox, _, _, bad, _ = scene
    done = command(outbox, "dead-letters", "export")
    assert done.returncode == 0 and "3 dead letters" in done.stderr
    entries = json_lines(done.stdout)
    assert [entry["id"] for entry in entries] == bad
    assert all(entry["occurredOn"] <= entry["diedOn"] <= utc_now() for entry in entries)
    assert entries[0]["payload"] == '{"n":1}' and entries[0]["orderingKey"] == "k\u00e4y"
    assert base64.b64decode(entries[2]["payloadBase64"]) == b"\x00\xff\x01"
    assert entries[2]["contentType"] == "application/octet-stream"
    path = tmp_path / "letters.jsonl"
    assert command(outbox, "dead-letters", "export", bad[1], "--file", str(path)).returncode == 0
    assert [entry["id"] for entry in json_lines(path.read_text())] == [bad[1]]
    assert os.stat(path).st_mode & 0o777 == 0o600
    done = command(outbox, "dead-letters", "export", "--file", str(path))
    assert done.returncode == 1 and str(path) in done.stderr, "it writes over nothing"
    assert command(outbox, "dead-letters", "export", "absent").returncode == 4


def test_discarding_takes_dead_letters_only_and_asks_first(scene):
    outbox, _, _, bad, good = scene
    done = command(outbox, "dead-letters", "discard", "--yes")
    assert done.returncode == 2 and "--all" in done.stderr
    done = command(outbox, "dead-letters", "discard", bad[0], stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and "--yes" in done.stderr
    done = command(outbox, "dead-letters", "discard", bad[0], "--dry-run")
    assert done.returncode == 0 and bad[0] in done.stdout
    assert outbox.states()["DeadLettered"] == 3
    done = command(outbox, "dead-letters", "discard", good, "--yes")
    assert done.returncode == 4 and outbox.states()["Processed"] == 1
    done = command(outbox, "dead-letters", "discard", bad[0], good, "--yes", "--reason", "a test")
    assert done.returncode == 6, done
    assert outbox.states() == {"DeadLettered": 2, "Processed": 1}
    assert outbox.query("SELECT event_id, reason FROM outbox_relay_audit"
                        " WHERE action = 'discard'") == [(bad[0], "a test")]
    done = command(outbox, "dead-letters", "discard", "--all", "--yes", "--limit", "1")
    assert done.returncode == 0 and "--limit" in done.stderr
    assert outbox.states()["DeadLettered"] == 1


def test_a_list_of_dead_letters_says_when_each_died_and_of_what_key(scene):
    outbox, _, _, bad, _ = scene
    listed = lines_of(outbox, "dead-letters", "list")
    assert all(letter["occurredOn"] <= letter["diedOn"] <= utc_now() for letter in listed)
    head, *rows = command(outbox, "dead-letters", "list").stdout.splitlines()
    assert head.split("  ")[0] == "ID" and "KEY" in head and "DIED ON" in head
    assert [row.split()[0] for row in rows] == bad and "k\u00e4y" in rows[0]
    assert listed[0]["diedOn"][:19] + "Z" in rows[0]
    assert head.index("LAST ERROR") <= 120


def test_columns_stand_below_each_other_whatever_the_letters(scene):
    outbox, _, _, bad, _ = scene
    head, *rows = command(outbox, "dead-letters", "list").stdout.splitlines()
    assert {row.index("permanent") for row in rows} == {head.index("REASON")}


def test_a_row_behind_a_dead_letter_of_its_key_names_it(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"types": ["asset.poison"], "status": 422})
    relay = world.relay(outbox, receiver, {"relay": {"ordering": "key"}})
    head = outbox.insert(event_type="asset.poison", ordering_key="k")
    until(lambda: outbox.states() == {"DeadLettered": 1}, 10, "the head is dead")
    behind = outbox.insert(ordering_key="k")
    done = run_command("messages", "show", behind, "--config", relay.config_path)
    assert done.returncode == 0 and f"waits for {head}, which is a dead letter" in done.stdout


def test_what_became_of_a_discarded_dead_letter_can_still_be_asked(scene):
    outbox, _, _, bad, _ = scene
    command(outbox, "dead-letters", "discard", bad[0], "--yes", "--reason", "sent by hand")
    done = command(outbox, "messages", "show", bad[0])
    assert done.returncode == 0 and "gone" in done.stdout and "sent by hand" in done.stdout
    shown = json.loads(command(outbox, "messages", "show", bad[0], "-o", "json").stdout)
    assert shown["state"] == "gone"
    assert [entry["action"] for entry in shown["audit"]] == ["dead_letter", "discard"]
    done = command(outbox, "dead-letters", "show", bad[0])
    assert done.returncode == 4 and "messages show" in done.stderr


def on_a_terminal(outbox, answer, *words):
    """What the command says on a terminal that answers; and its exit code."""
    main, other = pty.openpty()
    process = subprocess.Popen([binary(), *words, "--store", outbox.url], stdin=other,
                               stdout=subprocess.DEVNULL, stderr=other)
    os.close(other)
    said = ""
    while "[y/N]" not in said:
        said += os.read(main, 4096).decode()
    os.write(main, answer.encode() + b"\n")
    code = process.wait(30)
    try:
        while data := os.read(main, 4096):
            said += data.decode()
    except OSError:
        pass  # the other end is closed
    os.close(main)
    return code, said


def test_on_a_terminal_it_asks_and_shows_how_far_it_is(scene):
    outbox, _, _, bad, _ = scene
    code, said = on_a_terminal(outbox, "n", "dead-letters", "discard", bad[0])
    assert code == 1 and "nothing was changed" in said and outbox.states()["DeadLettered"] == 3
    code, said = on_a_terminal(outbox, "y", "dead-letters", "discard", bad[0])
    assert code == 0 and "1 of 1" not in said and outbox.states()["DeadLettered"] == 2
    outbox.query("WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)"
                 " INSERT INTO outbox_messages (id, event_type, status, payload)"
                 " SELECT 'more-' || i, 'asset.more', 'DeadLettered', 'x' FROM n")
    code, said = on_a_terminal(outbox, "y", "dead-letters", "discard", "--event-type", "asset.more")
    assert code == 0 and " of 250" in said and "250 of 250" not in said
    assert said.endswith("\r"), "the line is gone when it is done"


def test_a_pause_stops_every_relay_survives_restarts_and_loses_nothing(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    done = command(outbox, "pause", "--reason", "maintenance")
    assert done.returncode == 0 and "paused" in done.stderr and not done.stdout
    until(lambda: relay.metric("paused") == 1, 5, "the metric says so")
    status, body = relay.get("/readyz")
    assert status == 200 and json.loads(body)["paused"] is True
    ids = outbox.insert_many(5)
    assert relay.stop() == 0, "there is nothing to drain while it is paused"
    relay.start()
    until(lambda: relay.metric("paused") == 1, 5, "paused after the restart")
    other = world.relay(outbox, receiver, name="other")
    until(lambda: other.metric("paused") == 1, 5, "the other one, too")
    assert outbox.states() == {"Pending": 5} and outbox.leases() == 0
    assert "already" in command(outbox, "pause").stderr
    assert command(outbox, "resume").returncode == 0
    receiver.wait_for_ids(ids, 10)
    wait_processed(outbox, 10)
    until(lambda: relay.metric("paused") == 0, 5, "the metric says so")
    actions = outbox.query("SELECT action FROM outbox_relay_audit ORDER BY rowid")
    assert actions == [("pause",), ("resume",)], "what changed nothing is not recorded"


def test_commands_at_the_desk_say_when_there_is_no_database(world):
    url = f"sqlite://{world.folder}/absent.db"
    for words in (["messages", "find"], ["messages", "show", "x"], ["pause"], ["resume"],
                  ["dead-letters", "export"], ["dead-letters", "discard", "x", "--yes"]):
        done = run_command(*words, "--store", url)
        assert done.returncode == 3 and "absent.db" in done.stderr, (words, done)


def test_ids_kept_as_bytes_are_found_as_texts_on_a_foreign_table(world):
    outbox, receiver = world.outbox(create=False), world.receiver()
    receiver.rules({"types": ["order.bad"], "status": 422})
    ids = [uuid.uuid4() for _ in range(2)]
    outbox.make("CREATE TABLE OutboxMessages (Id BLOB NOT NULL PRIMARY KEY, Type TEXT NOT NULL,"
                " Content TEXT NOT NULL, OccurredOnUtc TEXT NOT NULL, ProcessedOnUtc TEXT,"
                " Error TEXT)")
    for row_id, kind in zip(ids, ("order.bad", "order.good")):
        outbox.query("INSERT INTO OutboxMessages (Id, Type, Content, OccurredOnUtc)"
                     " VALUES (?, ?, '{}', datetime('now'))", row_id.bytes_le, kind)
    mapped = {"store": {"preset": "dotnet", "table": "OutboxMessages"}}
    relay = world.relay(outbox, receiver, mapped)
    receiver.wait_for_ids([str(ids[1])], 10)
    words = ("--config", relay.config_path, "-o", "jsonl")

    def found(*more):
        done = run_command("messages", "find", *more, *words)
        return {entry["id"]: entry["state"] for entry in json_lines(done.stdout)}

    until(lambda: found() == {str(ids[0]): "dead_lettered", str(ids[1]): "processed"}, 10,
          lambda: f"both are decided: {found()}")
    assert found(str(ids[0])) == {str(ids[0]): "dead_lettered"}
    shown = json.loads(run_command("messages", "show", str(ids[0]).upper(), *words).stdout)
    assert shown["columns"]["Type"] == "order.bad" and shown["attempts"] == 1
    assert [entry["outcome"] for entry in shown["attemptHistory"]] == ["refused"]
    done = run_command("dead-letters", "discard", str(ids[0]), "--yes", "--config",
                       relay.config_path)
    assert done.returncode == 0, done
    assert outbox.query("SELECT Type FROM OutboxMessages") == [("order.good",)]


@pytest.mark.parametrize("words", [
    ("adopt", "--all"), ("adopt", "--skip-older", "--dry-run"), ("messages", "find"), ("status",),
    ("dead-letters", "redrive", "--yes"), ("dead-letters", "list"), ("wait", "--for", "drained",
                                                                    "--timeout", "0s")])
@pytest.mark.parametrize("change, why", [
    ("ALTER TABLE outbox_relay_rows DROP COLUMN fingerprint", "made by an older program"),
    ("UPDATE outbox_relay_meta SET value = 99 WHERE name = 'schema_major'", "have version 99")])
def test_tables_of_another_version_are_named_as_such_and_left_alone(world, words, change, why):
    outbox = Outbox(world.folder, create=False)
    outbox.make("CREATE TABLE box (id TEXT PRIMARY KEY, aggregatetype, aggregateid, type, payload)",
                "INSERT INTO box VALUES ('a', 'a', 'k', 't', 'p')")
    table = ("--table", "box", "--preset", "debezium")
    assert command(outbox, "init", "--apply", *table).returncode == 0
    outbox.query(change)
    dump = "\n".join(map(str, outbox.query("SELECT sql FROM sqlite_schema")))
    done = command(outbox, *words, *table, "--broker", "null:")
    # What waits can only say that it could not even look.
    assert done.returncode == (3 if words[0] == "wait" else 5), done
    assert why in done.stdout + done.stderr
    assert "\n".join(map(str, outbox.query("SELECT sql FROM sqlite_schema"))) == dump
    assert outbox.value("SELECT count(*) FROM outbox_relay_rows") == 0


def test_a_command_that_waits_too_long_for_a_lock_says_so_and_has_done_nothing(world):
    outbox = world.outbox()
    with outbox.connection() as database:
        database.execute("BEGIN IMMEDIATE")
        done = command(outbox, "pause", "--reason", "maintenance")
        database.execute("COMMIT")
    assert done.returncode == 3 and "kept it locked for too long" in done.stderr, done
    assert "doctor" in done.stderr
    assert outbox.query("SELECT * FROM outbox_relay_audit") == []
