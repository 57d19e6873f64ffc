"""The harness itself: a check that can't fail proves nothing, so each is shown a failure here."""

import copy
import http.client

import pytest

from harness import checks
from harness.metrics import Metrics
from harness.waiting import until

ROW = {"id": "a", "type": "t", "key": "k", "sha": "00", "size": 2,
       "headers": {"X-Note": "caf\u00e9"}}


def row(event_id, key="k"):
    return {**ROW, "id": event_id, "key": key}


def request(event_id, **changes):
    fields = {"ce-specversion": "1.0", "ce-id": event_id, "ce-type": "t", "ce-subject": "k",
              "ce-source": "/outbox-relay/outbox_messages", "content-type": "application/json",
              "content-length": "2", "idempotency-key": event_id, "x-note": "caf\u00c3\u00a9"}
    return {"id": event_id, "n": 1, "sha": "00", "size": 2, "path": "/", "answer": 200,
            "headers": [list(item) for item in fields.items()], **changes}


def test_the_checks_accept_a_faithful_delivery():
    truth, got = [row("a"), row("b")], [request("a"), request("b")]
    assert checks.lost(truth, got) == []
    assert checks.phantoms(truth, got) == []
    assert checks.repeats(got) == []
    assert checks.differences(truth, got) == []
    assert checks.disorder(truth, got) == []
    assert checks.identity_drift(got) == []


def test_the_checks_report_a_lost_row_a_phantom_and_a_repeat():
    assert checks.lost([row("a"), row("b")], [request("a")]) == ["lost: b"]
    assert checks.phantoms([row("a")], [request("z")]) == ["phantom: z"]
    assert checks.repeats([request("a"), request("a")]) == ["2 times: a"]


def test_the_checks_report_two_rows_of_a_key_in_the_wrong_order():
    truth = [row("a"), row("b"), row("c", key="other")]
    assert len(checks.disorder(truth, [request("b"), request("a"), request("c")])) == 1
    assert checks.disorder(truth, [request("a"), request("b"), request("a")]) == []


@pytest.mark.parametrize("name", ["ce-id", "ce-type", "ce-subject", "content-type", "x-note"])
def test_the_checks_report_a_changed_or_missing_header(name):
    changed, missing = request("a"), request("a")
    changed["headers"] = [[field, "other" if field == name else value]
                          for field, value in changed["headers"]]
    missing["headers"] = [item for item in missing["headers"] if item[0] != name]
    assert len(checks.differences([row("a")], [changed])) == 1
    assert len(checks.differences([row("a")], [missing])) == 1


def test_the_checks_report_a_flipped_bit_and_an_attempt_that_differs():
    assert len(checks.differences([row("a")], [request("a", sha="01")])) == 1
    second = copy.deepcopy(request("a"))
    second["headers"].append(["x-new", "1"])
    assert len(checks.identity_drift([request("a"), second])) == 1


def test_the_metrics_reader_knows_labels_and_refuses_a_series_that_comes_twice():
    text = 'outbox_relay_x{a="1",b="q\\"uote"} 2\noutbox_relay_x{a="2",b=""} 3e0\n'
    assert Metrics(text).sum("x") == 5
    assert Metrics(text).value("x", a="2") == 3
    with pytest.raises(AssertionError):
        Metrics("outbox_relay_x 1\noutbox_relay_x 2\n")


def post(port, event_id, body=b"{}", timeout=5):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/inbox", body, {"Idempotency-Key": event_id, "ce-type": "t"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_receiver_answers_as_its_rules_say_and_records_each_request(world):
    receiver = world.receiver()
    receiver.rules({"ids": ["bad"], "status": 400}, {"types": ["t"], "status": 503, "times": 1,
                                                     "headers": {"Retry-After": "7"}})
    answers = [post(receiver.port, event_id) for event_id in ("bad", "a", "a")]
    assert answers == [400, 503, 200]
    assert [r["id"] for r in receiver.requests()] == ["bad", "a", "a"]
    assert receiver.accepted_ids() == ["a"]


def test_the_proxy_counts_what_it_passes_refuses_and_swallows(world):
    receiver = world.receiver()
    proxy = world.proxy(receiver)
    assert post(proxy.port, "a", b"x" * 300_000) == 200
    proxy.refuse()
    with pytest.raises(OSError):
        post(proxy.port, "b")
    proxy.black_hole()
    with pytest.raises(OSError):
        post(proxy.port, "c", timeout=0.3)
    proxy.close_listener()
    with pytest.raises(ConnectionRefusedError):
        post(proxy.port, "d")
    proxy.open_listener()
    proxy.cut_answers(after=5)
    with pytest.raises((OSError, http.client.HTTPException)):
        post(proxy.port, "e")
    proxy.let_pass()
    assert post(proxy.port, "f") == 200
    until(lambda: len(receiver.requests()) == 3, 5, "the receiver saw a, e and f")
    assert [entry["id"] for entry in proxy.requests()] == ["a", "c", "e", "f"]
    assert len(proxy.attempts()) == 5
