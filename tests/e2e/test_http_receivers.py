"""Real receivers: the official libraries for CloudEvents and Standard Webhooks, and mutual TLS."""

import base64
import json
import os
import subprocess
from urllib.parse import unquote

import pytest
from harness.authority import Authority, openssl
from harness.events import load_events
from harness.outbox import headers_of
from harness.process import replace_file
from harness.relay import run_command
from harness.waiting import until
from harness.world import wait_processed

OLD = "whsec_" + base64.b64encode(b"the old secret, of 30 bytes...").decode()
NEW = "whsec_" + base64.b64encode(b"the new secret, of 30 bytes...").decode()
OTHER = "whsec_" + base64.b64encode(b"somebody else's, of 30 bytes..").decode()
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SIGNED_SO = "No matching signature found"


def real_rows():
    """The events that come with the tests, as rows."""
    for number, event in enumerate(load_events()):
        yield {"payload": json.dumps(event, ensure_ascii=False).encode(),
               "event_type": f"github.{number % 7}", "ordering_key": f"key/{number} grün €",
               "traceparent": TRACE}


def special_rows():
    yield {"payload": b'{"a": [1, 2.5, null, "\\u00fc"]}',
           "content_type": "application/vnd.order+json"}
    yield {"payload": "<a b=\"c\">grün \\ 😀</a>\r\n".encode(),
           "content_type": "application/xml"}
    yield {"payload": "plain, grün\n".encode(), "content_type": "text/plain"}
    yield {"payload": bytes(range(256)), "content_type": "application/octet-stream"}
    yield {"payload": b'["a list"]'}


def insert(outbox, rows):
    """Inserts the rows; by id, what was inserted."""
    return {outbox.insert(**{"event_type": "order.placed", **row}): row for row in rows}


def columns_of(outbox, row_id):
    return outbox.query("SELECT event_type, occurred_on_utc FROM outbox_messages WHERE id = ?",
                        row_id)[0]


def expected_attributes(outbox, row_id, row):
    event_type, occurred_on = columns_of(outbox, row_id)
    expected = {"specversion": "1.0", "id": row_id, "type": event_type, "time": occurred_on,
                "source": "/outbox-relay/outbox_messages",
                "datacontenttype": row.get("content_type", "application/json")}
    if "ordering_key" in row:
        expected["subject"] = row["ordering_key"]
    if "traceparent" in row:
        expected["traceparent"] = row["traceparent"]
    return expected


def payload_of(event, content_type):
    """What the library handed out, comparable with the row's payload."""
    if "bytes" in event:
        return base64.b64decode(event["bytes"])
    if isinstance(event.get("data"), str) and "json" not in content_type:
        return event["data"].encode()
    return event.get("data")


def expected_payload(row, structured):
    content_type = row.get("content_type", "application/json")
    # The library itself parses JSON of exactly this type only, when it stands in a body of its own.
    if content_type == "application/json" or ("json" in content_type and structured):
        return json.loads(row["payload"])
    if "json" in content_type:
        return row["payload"].decode()
    return row["payload"]


@pytest.mark.parametrize("envelope", ["cloudevents-binary", "cloudevents-structured"])
def test_the_official_cloudevents_library_reads_what_the_rows_say(world, envelope):
    outbox, receiver = world.outbox(), world.library_receiver()
    structured = envelope == "cloudevents-structured"
    world.relay(outbox, receiver, {"brokers": {"main": {"envelope": envelope}}})
    rows = insert(outbox, [*real_rows(), *special_rows()])
    understood = receiver.understood(rows)
    for row_id, row in rows.items():
        event = understood[row_id]["event"]
        assert "error" not in event, f"{row}: {event}"
        attributes = event["attributes"]
        if not structured:  # the binding encodes what headers can't carry; the library leaves it so
            attributes = {name: unquote(value) for name, value in attributes.items()}
        assert attributes == expected_attributes(outbox, row_id, row)
        content_type = row.get("content_type", "application/json")
        assert payload_of(event, content_type) == expected_payload(row, structured), row
    wait_processed(outbox, 10)


def test_a_payload_that_only_claims_to_be_json_arrives_byte_for_byte_in_structured_mode(world):
    outbox, receiver = world.outbox(), world.library_receiver()
    world.relay(outbox, receiver, {"brokers": {"main": {"envelope": "cloudevents-structured"}}})
    rows = insert(outbox, [{"payload": b'{"n":1'}, {"payload": b"\xff\xfe{}"},
                           {"payload": b'{},"id":"forged"'}])
    understood = receiver.understood(rows)
    for row_id, row in rows.items():
        event = understood[row_id]["event"]
        assert event["attributes"]["id"] == row_id
        assert payload_of(event, "application/json") == row["payload"]


def write_keys(path, *keys):
    replace_file(path, "".join(key + "\n" for key in keys))


def verdicts(receiver, outbox, count=20):
    """Sends rows and returns what each holder of a secret thinks of them: all have to agree."""
    rows = insert(outbox, [*real_rows()][:count])
    thoughts = [tuple(sorted(entry["verified"].items()))
                for entry in receiver.understood(rows).values()]
    assert len(set(thoughts)) == 1
    return dict(thoughts[0])


@pytest.mark.parametrize("envelope", ["cloudevents-binary", "cloudevents-structured", "raw"])
def test_holders_of_either_key_can_verify_while_keys_are_changed(world, envelope):
    outbox = world.outbox()
    receiver = world.library_receiver({"old": OLD, "new": NEW, "other": OTHER})
    keys = os.path.join(world.folder, "signing-keys")
    write_keys(keys, OLD)
    relay = world.relay(outbox, receiver, {"brokers": {"main": {
        "envelope": envelope, "signingKeyFile": keys}}})
    assert verdicts(receiver, outbox) == {
        "old": "ok", "new": NOT_SIGNED_SO, "other": NOT_SIGNED_SO}
    write_keys(keys, OLD, NEW)
    assert verdicts(receiver, outbox) == {"old": "ok", "new": "ok", "other": NOT_SIGNED_SO}
    write_keys(keys, NEW)
    assert verdicts(receiver, outbox) == {
        "old": NOT_SIGNED_SO, "new": "ok", "other": NOT_SIGNED_SO}
    for secret in [OLD, NEW]:
        assert secret not in relay.log_text()
    assert relay.stop() == 0


def test_a_retry_is_signed_anew_and_keeps_its_id(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 503, "times": 1})
    keys = os.path.join(world.folder, "signing-keys")
    write_keys(keys, OLD)
    world.relay(outbox, receiver, {"brokers": {"main": {"signingKeyFile": keys}},
                                   "retry": {"baseDelay": "2s", "jitter": "none"}})
    row_id = outbox.insert()
    receiver.wait_for_ids([row_id], 15)
    first, second = [headers_of(request) for request in receiver.requests()]
    assert first["webhook-id"] == second["webhook-id"] == row_id
    assert int(second["webhook-timestamp"]) > int(first["webhook-timestamp"])
    assert second["webhook-signature"] != first["webhook-signature"]


def test_an_id_with_a_dot_is_a_dead_letter_with_the_reason_and_stops_nobody_else(world):
    outbox, receiver = world.outbox(), world.library_receiver({"old": OLD})
    keys = os.path.join(world.folder, "signing-keys")
    write_keys(keys, OLD)
    world.relay(outbox, receiver, {"brokers": {"main": {"signingKeyFile": keys}}})
    outbox.insert(id="order.42")
    others = insert(outbox, [{"payload": b"{}"} for _ in range(10)])
    assert {entry["verified"]["old"] for entry in receiver.understood(others).values()} == {"ok"}
    until(lambda: outbox.row("order.42")["status"] == "DeadLettered", 10, "the dead letter")
    row = outbox.row("order.42")
    assert row["dead_letter_reason"] == "permanent" and "the id has a dot" in row["last_error"]


def test_a_signature_by_a_private_key_is_verified_with_the_public_key_alone(world):
    private, public, signature_file, signed = [
        os.path.join(world.folder, name) for name in ("private", "public", "signature", "signed")]
    openssl("genpkey", "-algorithm", "ed25519", "-outform", "DER", "-out", private)
    openssl("pkey", "-inform", "DER", "-in", private, "-pubout", "-out", public)
    keys = os.path.join(world.folder, "signing-keys")
    with open(private, "rb") as file:
        write_keys(keys, OLD, "whsk_" + base64.b64encode(file.read()[-32:]).decode())
    outbox, receiver = world.outbox(), world.receiver()
    world.relay(outbox, receiver, {"brokers": {"main": {"signingKeyFile": keys}}})
    payload = bytes(range(256))
    receiver.wait_for_ids([outbox.insert(payload=payload)], 10)
    fields = headers_of(receiver.requests()[0])
    shared, own = fields["webhook-signature"].split(" ")
    assert shared.startswith("v1,") and own.startswith("v1a,")
    with open(signature_file, "wb") as file:
        file.write(base64.b64decode(own.removeprefix("v1a,")))
    for body, good in [(payload, True), (payload[1:], False)]:
        with open(signed, "wb") as file:
            file.write(f"{fields['webhook-id']}.{fields['webhook-timestamp']}.".encode() + body)
        verified = subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-in", signed,
             "-sigfile", signature_file], capture_output=True, timeout=30, check=False)
        assert (verified.returncode == 0) == good, verified


def test_a_receiver_that_wants_a_client_certificate_gets_nothing_without_one(world):
    authority = Authority(world.folder)
    receiver = world.receiver(*authority.issue("server", "IP:127.0.0.1"), authority.file)
    outbox = world.outbox()
    world.relay(outbox, receiver, {"brokers": {"main": {"tls": {"caFile": authority.file}}}})
    row_id = outbox.insert()
    until(lambda: outbox.row(row_id)["retry_count"] >= 1, 10, lambda: f"{outbox.row(row_id)}")
    assert "connection was lost" in outbox.row(row_id)["last_error"]
    assert receiver.requests() == []


def test_a_client_certificate_is_shown_and_a_renewed_one_with_the_next_connection(world):
    authority = Authority(world.folder)
    receiver = world.receiver(*authority.issue("server", "IP:127.0.0.1"), authority.file)
    outbox = world.outbox()
    mounted = [os.path.join(world.folder, name) for name in ("tls.crt", "tls.key")]

    def mount(files):
        for source, target in zip(files, mounted):
            os.replace(source, target)

    mount(authority.issue("relay-2026"))
    relay = world.relay(outbox, receiver, {"brokers": {"main": {"tls": {
        "caFile": authority.file, "certFile": mounted[0], "keyFile": mounted[1]}}}})
    first = outbox.insert_many(20)
    receiver.wait_for_ids(first, 15)
    assert {request["peer"] for request in receiver.requests()} == {"relay-2026"}

    mount(authority.issue("relay-2027"))
    receiver.rules({"status": 200, "headers": {"Connection": "close"}})
    outbox.insert_many(20)
    wait_processed(outbox, 15)
    receiver.rules()
    last = outbox.insert_many(20)
    receiver.wait_for_ids(last, 15)
    wanted = set(last)
    assert {r["peer"] for r in receiver.requests() if r["id"] in wanted} == {"relay-2027"}
    assert relay.metric("publish_failures_total") == 0


def test_a_bearer_token_that_changes_is_used_at_once(world):
    outbox, receiver = world.outbox(), world.receiver()
    token = os.path.join(world.folder, "token")
    write_keys(token, "first-token")
    relay = world.relay(outbox, receiver, {"brokers": {"main": {"bearerTokenFile": token}}})
    for text in ["first-token", "second-token"]:
        write_keys(token, text)
        before = len(receiver.requests())
        receiver.wait_for_ids(outbox.insert_many(10), 10)
        seen = {headers_of(request)["authorization"] for request in receiver.requests()[before:]}
        assert seen == {f"Bearer {text}"}
        assert text not in relay.log_text()


@pytest.mark.parametrize("settings, why", [
    ({"headers": {"webhook-id": "x"}}, "webhook-id is set by the relay"),
    ({"headers": {"X-Tenant": "hidden", "x-tenant": "b"}}, "appears twice"),
    ({"headers": {"X-Tenant": "hidden\nX-Injected: 1"}}, "line break"),
    ({"headers": {"Authorization": "hidden"}, "bearerTokenFile": "/dev/null"},
     "/dev/null is empty"),
    ({"signingKeyFile": "/no/such/file"}, "the file /no/such/file can't be read"),
    ({"envelope": "masstransit"}, "is not part of this version"),
])
def test_what_can_not_work_is_refused_at_start(world, settings, why):
    relay = world.relay(world.outbox(), "http://127.0.0.1:1/", {"brokers": {"main": settings}},
                        start=False)
    for command in ["validate", "run"]:
        done = run_command(command, "--config", relay.config_path)
        assert done.returncode == 78 and why in done.stdout + done.stderr, done
        assert "hidden" not in done.stdout + done.stderr
