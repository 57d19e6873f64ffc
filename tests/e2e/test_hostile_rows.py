"""Rows that nobody should write: each ends with a clear reason, its neighbours are delivered."""

import json

import pytest

from harness.relay import run_command
from harness.waiting import holds, until

BIG = 300 * 1024 * 1024
RSS_LIMIT = 64 << 20


class Case:
    """Some hostile rows between good ones."""

    def __init__(self, world, settings=None):
        self.outbox, self.receiver = world.outbox(), world.receiver()
        self.world = world
        self.settings = settings
        self.good = self.outbox.insert_many(10, event_type="asset.good")

    def run(self):
        self.good += self.outbox.insert_many(10, event_type="asset.good")
        self.relay = self.world.relay(self.outbox, self.receiver, self.settings)
        self.receiver.wait_for_ids(self.good, 20)
        return self

    def dead_letters(self):
        """What `dead-letters list` says, by id: it also knows rows too large to rewrite."""
        done = run_command("dead-letters", "list", "--store", self.outbox.url, "-o", "json")
        assert done.returncode == 0, done.stderr
        return {entry["id"]: entry for entry in json.loads(done.stdout)}

    def wait_dead(self, row_id, reasons, *words, seconds=15):
        """Waits until the row is a dead letter for one of the reasons, its error has the words."""
        until(lambda: row_id in self.dead_letters(), seconds, f"{row_id} is dead", poll=0.1)
        letter = self.dead_letters()[row_id]
        assert letter["reason"] in reasons, letter
        for word in words:
            assert word.lower() in json.dumps(letter).lower(), (word, letter)
        assert row_id not in self.receiver.accepted_ids()
        return letter

    def check(self):
        """The good ones were delivered once, memory is small, and nothing keeps being tried."""
        good = set(self.good)
        accepted = [row_id for row_id in self.receiver.accepted_ids() if row_id in good]
        assert sorted(accepted) == sorted(good)
        assert self.relay.memory_peak() < RSS_LIMIT
        assert self.relay.get("/readyz")[0] == 200
        self.outbox.check_integrity()


def test_a_poison_row_dies_permanent_and_its_neighbours_are_delivered(world):
    case = Case(world)
    row_id = case.outbox.insert(event_type="asset.poison")
    case.receiver.rules({"ids": [row_id], "status": 400, "body": "secret: hunter2"})
    case.run()
    case.wait_dead(row_id, {"permanent"}, "400")
    row = case.outbox.row(row_id)
    assert (row["status"], row["dead_letter_reason"]) == ("DeadLettered", "permanent")
    assert "hunter2" not in row["last_error"] and "hunter2" not in case.relay.log_text()
    assert [r["id"] for r in case.receiver.requests()].count(row_id) == 1
    lines = [entry for entry in case.relay.log() if row_id in str(entry)]
    assert len(lines) == 1 and lines[0]["level"] == "error" and "permanent" in str(lines[0])
    assert case.relay.metric("dead_lettered_total", reason="permanent") == 1
    assert case.relay.metric("publish_failures_total", kind="refused") == 1
    case.check()


@pytest.mark.parametrize("payload", [f"zeroblob({BIG})", f"printf('%.{BIG}c', 'x')"],
                         ids=["blob", "text"])
def test_a_row_of_300_mb_dies_oversized_and_is_never_loaded(world, payload):
    case = Case(world)
    row_id = case.outbox.insert_expression("a-very-large-row", payload=payload)
    case.run()
    letter = case.wait_dead(row_id, {"oversized"}, seconds=30)
    assert str(BIG) in letter["lastError"] or "300" in letter["lastError"], letter
    case.check()
    later = case.outbox.insert_many(5)
    case.receiver.wait_for_ids(later, 10)
    assert case.relay.stop() == 0


BAD_HEADERS = [
    {"X-Evil": "a\r\nInjected: yes"}, {"X-Evil": "a\nb"}, {"X-Evil\r\nInjected": "yes"},
    {"X Evil": "blank in the name"}, {"": "no name"}, {"X-Nul": "a\0b"},
    {"ce-id": "forged"}, {"Content-Length": "0"}, {"HOST": "evil"}, {"Authorization": "Basic x"},
    {"connection": "close"}, {"Transfer-Encoding": "chunked"}, {"idempotency-key": "forged"},
    {"webhook-signature": "forged"}, {"Outbox-Attempt": "9"},
]


def test_a_header_that_collides_or_cannot_be_represented_is_refused_and_never_sent(world):
    case = Case(world)
    bad = {case.outbox.insert(headers=json.dumps(headers)): headers for headers in BAD_HEADERS}
    case.run()
    for row_id, headers in bad.items():
        name = next(iter(headers)).split("\r")[0]
        case.wait_dead(row_id, {"permanent", "invalid_row"}, "header", name)
    assert "injected" not in str(case.receiver.requests()).lower()
    assert len(case.receiver.requests()) == len(case.good)
    case.check()


BROKEN_JSON = ["{", "[1, 2]", '"text"', '{"a": {"b": 1}}', "nonsense", '{"a": "b"} trailing',
               "[" * 100_000]


def test_broken_headers_json_is_an_invalid_row(world):
    case = Case(world)
    bad = [case.outbox.insert(headers=headers) for headers in BROKEN_JSON]
    case.run()
    for row_id in bad:
        case.wait_dead(row_id, {"invalid_row"}, "headers")
    assert len(case.receiver.requests()) == len(case.good)
    case.check()


NASTY = {
    "invalid UTF-8": "CAST(x'61ff62' AS TEXT)",
    "NUL": "CAST(x'610062' AS TEXT)",
    "CRLF": "'a' || char(13, 10) || 'X-Injected: yes'",
}
COLUMNS = ["event_type", "ordering_key", "destination", "content_type", "headers", "traceparent",
           "occurred_on_utc", "not_before_utc"]


@pytest.mark.parametrize("value", NASTY)
def test_bytes_that_are_no_text_in_a_column_never_stop_the_neighbours(world, value):
    case = Case(world)
    nasty = {case.outbox.insert_expression(f"nasty {column}", **{column: NASTY[value]}): column
             for column in COLUMNS}
    case.run()
    until(lambda: case.outbox.unfinished() == 0, 15,
          lambda: f"all decided: {[case.outbox.row(row_id) for row_id in nasty]}")
    for row_id, column in nasty.items():
        row = case.outbox.row(row_id)
        if row["status"] == "DeadLettered":
            assert row["dead_letter_reason"] in ("invalid_row", "permanent"), row
            words = {column, column.removesuffix("_utc"), column.replace("_", " ")}
            assert any(word in row["last_error"].lower() for word in words), row
        else:
            check_harmless(case, row_id, column, value)
    assert "x-injected" not in str([r["headers"] for r in case.receiver.requests()]).lower()
    case.check()


def check_harmless(case, row_id, column, value):
    """A row that was sent all the same: the value was encoded, or left out where one may."""
    sent = next(r for r in case.receiver.requests() if r["id"] == row_id)
    if value == "invalid UTF-8":
        assert column in ("traceparent", "not_before_utc"), (column, sent)
    text = str(sent["headers"]) + sent["path"]
    assert "\\x00" not in text and "\\r" not in text


@pytest.mark.parametrize("value", NASTY)
def test_an_id_that_cannot_be_a_header_dies_with_a_reason(world, value):
    case = Case(world)
    case.outbox.insert_expression("ignored", id=NASTY[value])
    case.run()
    until(lambda: case.outbox.states()["DeadLettered"] == 1, 10, lambda: f"{case.outbox.states()}")
    reason, error = case.outbox.query("SELECT dead_letter_reason, last_error FROM outbox_messages"
                                      " WHERE status = 'DeadLettered'")[0]
    assert reason in ("invalid_row", "permanent") and "id" in error.lower()
    assert len(case.receiver.requests()) == len(case.good)
    case.check()


def test_a_row_that_may_not_go_out_before_a_far_future_waits_and_harms_nobody(world):
    case = Case(world)
    row_id = case.outbox.insert(not_before_utc="2999-01-01T00:00:00Z")
    soon = case.outbox.insert_expression(
        "soon", not_before_utc="strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+2 seconds')")
    inserted = case.outbox.value("SELECT julianday('now')")
    case.run()
    case.receiver.wait_for_ids([soon], 10)
    after = (case.outbox.value("SELECT julianday('now')") - inserted) * 86400
    assert after >= 1.9
    holds(lambda: row_id not in case.receiver.accepted_ids(), 1, "it is not due")
    assert case.outbox.row(row_id)["status"] == "Pending"
    assert case.outbox.row(row_id)["retry_count"] == 0
    case.check()


@pytest.mark.parametrize("action", ["ABORT", "FAIL", "ROLLBACK"])
def test_a_row_whose_settlement_a_trigger_refuses_is_set_aside_and_sent_once(world, action):
    case = Case(world)
    row_id = case.outbox.insert(event_type="asset.trapped")
    with case.outbox.connection() as database:
        database.execute(f"""CREATE TRIGGER trap BEFORE UPDATE ON outbox_messages
            WHEN NEW.id = '{row_id}' BEGIN SELECT RAISE({action}, 'the trap says no'); END""")
    case.run()
    case.receiver.wait_for_ids([row_id], 10)
    until(lambda: "the trap says no" in case.relay.log_text(), 10, "it is logged")
    until(lambda: case.outbox.leases() == 0, 10, "its lease has ended")
    more = case.outbox.insert_many(20)
    case.receiver.wait_for_ids(more, 10)
    case.good += more
    holds(lambda: case.receiver.accepted_ids().count(row_id) == 1, 2, "it is not sent again")
    assert case.relay.metric("store_faults_total") >= 1
    assert case.relay.log_text().count("the trap says no") <= 3
    case.check()
    case.relay.stop()
    again = world.relay(case.outbox, case.receiver, name="again")
    last = case.outbox.insert_many(5)
    case.receiver.wait_for_ids(last, 10)
    assert case.receiver.accepted_ids().count(row_id) == 1, "the side table remembers"
    assert again.running()


def test_a_status_that_the_relay_does_not_know_is_left_alone(world):
    case = Case(world)
    row_id = case.outbox.insert(status="OnHold")
    case.run()
    assert case.outbox.row(row_id)["status"] == "OnHold"
    assert row_id not in case.receiver.accepted_ids()
    case.check()


def test_a_payload_that_is_a_number_is_decided_and_harms_nobody(world):
    case = Case(world)
    for payload in ("42", "1.5"):
        case.outbox.insert_expression(f"number {payload}", payload=payload)
    case.run()
    until(lambda: case.outbox.unfinished() == 0, 10, lambda: f"decided: {case.outbox.states()}")
    case.check()


def test_a_poison_head_blocks_only_its_key_and_a_redrive_frees_it(world):
    outbox, receiver = world.outbox(), world.receiver()
    head = outbox.insert(ordering_key="blocked")
    behind = outbox.insert_many(5, ordering_key="blocked")
    others = outbox.insert_many(30, ordering_key="free") + outbox.insert_many(10)
    receiver.rules({"ids": [head], "status": 422})
    relay = world.relay(outbox, receiver, {"relay": {"ordering": "key"}})
    receiver.wait_for_ids(others, 10)
    holds(lambda: not set(behind) & set(receiver.accepted_ids()), 1, "the key is blocked")
    receiver.rules()
    done = run_command("dead-letters", "redrive", "--store", outbox.url, "--yes",
                       "--reason", "mended", head)
    assert done.returncode == 0, done.stderr
    receiver.wait_for_ids([head, *behind], 10)
    assert [i for i in receiver.accepted_ids() if i in {head, *behind}] == [head, *behind]
    assert relay.metric("dead_lettered_total", reason="permanent") == 1
