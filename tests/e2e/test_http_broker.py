"""HTTP as a broker: what each answer means, and what a receiver may not do to the relay."""

import os
import subprocess
import time

from harness.outbox import headers_of
from harness.process import replace_file
from harness.waiting import holds, until
from harness.world import wait_processed


def certificate(folder):
    """A self-signed certificate for 127.0.0.1."""
    paths = [os.path.join(folder, name) for name in ("certificate.pem", "key.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]],
        check=True, capture_output=True, timeout=30)
    return paths


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(world):
    outbox = world.outbox()
    receiver = world.receiver(*certificate(world.folder))
    world.relay(outbox, receiver)
    row_id = outbox.insert()
    until(lambda: outbox.row(row_id)["retry_count"] >= 1, 10, lambda: f"{outbox.row(row_id)}")
    assert "certificate" in outbox.row(row_id)["last_error"].lower()
    assert receiver.requests() == []


def test_a_certificate_of_the_given_authority_is_trusted(world):
    outbox = world.outbox()
    paths = certificate(world.folder)
    receiver = world.receiver(*paths)
    relay = world.relay(outbox, receiver, {"brokers": {"main": {"tls": {"caFile": paths[0]}}}})
    ids = outbox.insert_many(100, payload=b"z" * 20_000)
    receiver.wait_for_ids(ids, 15)
    wait_processed(outbox, 5)
    days = (relay.metric("tls_certificate_expiry_timestamp_seconds") - time.time()) / 86_400
    assert 1.9 < days < 2


def test_a_redirect_is_not_followed(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 302, "headers": {"Location": receiver.url + "/elsewhere"}})
    relay = world.relay(outbox, receiver)
    row_id = outbox.insert()
    until(lambda: outbox.row(row_id)["status"] == "Failed", 10, lambda: f"{outbox.row(row_id)}")
    assert "302" in outbox.row(row_id)["last_error"] and outbox.row(row_id)["retry_count"] == 0
    holds(lambda: len(receiver.requests()) == 1, 1, "one request, to the configured URL")
    assert relay.metric("publish_failures_total", kind="misconfigured") == 1


def test_the_size_of_an_answers_body_does_not_matter(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 200, "body_size": 100 << 20})
    relay = world.relay(outbox, receiver)
    ids = outbox.insert_many(5)
    receiver.wait_for_ids(ids, 20)
    receiver.rules()
    wait_processed(outbox, 20)
    assert relay.memory_peak() < 64 << 20


def test_a_conflict_is_tried_again_and_says_nothing_against_the_broker(world):
    outbox, receiver = world.outbox(), world.receiver()
    row_id = outbox.insert()
    receiver.rules({"ids": [row_id], "status": 409, "times": 2})
    relay = world.relay(outbox, receiver, {"retry": {"baseDelay": "100ms"},
                                           "breaker": {"consecutiveFailures": 1}})
    receiver.wait_for_ids([row_id], 10)
    assert outbox.value("SELECT retry_count FROM outbox_messages") == 2
    assert relay.metric("publish_failures_total", kind="conflict") == 2
    assert relay.metric("broker_circuit_transitions_total", to="open") == 0


def test_connections_are_kept_alive_and_as_many_as_configured(world):
    outbox, receiver = world.outbox(), world.receiver()
    world.relay(outbox, receiver, {"brokers": {"main": {"connections": 3}}})
    ids = outbox.insert_many(300)
    receiver.wait_for_ids(ids, 15)
    assert len({request["conn"] for request in receiver.requests()}) <= 3


def test_the_raw_envelope_sends_the_payload_and_the_rows_headers_only(world):
    outbox, receiver = world.outbox(), world.receiver()
    world.relay(outbox, receiver, {"brokers": {"main": {"envelope": "raw"}}})
    row_id = outbox.insert(headers='{"X-Mine": "1"}', content_type="text/plain")
    receiver.wait_for_requests(1, 10)
    fields = headers_of(receiver.requests()[0])
    assert fields["x-mine"] == "1" and fields["content-type"] == "text/plain"
    assert fields["idempotency-key"] == row_id
    assert not any(name.startswith("ce-") for name in fields)


def test_a_header_whose_value_stands_in_a_file_follows_the_file_and_is_never_shown(world):
    outbox, receiver = world.outbox(), world.receiver()
    key = os.path.join(world.folder, "api-key")
    replace_file(key, "first-secret\n")
    relay = world.relay(outbox, receiver, {
        "brokers": {"main": {"headerFiles": {"X-Api-Key": key}, "headers": {"X-Tenant": "acme"}}}})
    receiver.wait_for_ids([outbox.insert()], 10)
    replace_file(key, "second-secret\n")
    receiver.wait_for_ids([outbox.insert()], 10)
    sent = [headers_of(request) for request in receiver.requests()]
    assert [fields["x-api-key"] for fields in sent] == ["first-secret", "second-secret"]
    assert sent[0]["x-tenant"] == "acme"
    refused = outbox.insert(headers='{"x-api-key": "mine"}')
    until(lambda: outbox.row(refused)["status"] == "DeadLettered", 10,
          lambda: f"{outbox.row(refused)}")
    assert "secret" not in relay.log_text() + relay.metrics().text
