"""The HTTP port: health and metrics answer quickly whatever others do to it."""

import socket
import subprocess
import time

from harness.checks import percentile
from harness.waiting import until

SLOW = 200


def slow_connections(world, port):
    connections = []
    world.finally_do(lambda: [connection.close() for connection in connections])
    for number in range(SLOW):
        connection = socket.create_connection(("127.0.0.1", port), timeout=5)
        connections.append(connection)
        if number % 2:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    return connections


def test_livez_and_metrics_answer_within_100_ms_beside_200_slow_connections(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    connections = slow_connections(world, relay.port)
    took = []
    for number in range(30):
        for connection in connections[1::20]:
            try:
                connection.sendall(b"x")
            except OSError:
                pass  # turned away by then, which is its right
        for path in ("/livez", "/metrics"):
            began = time.monotonic()
            assert relay.get(path)[0] == 200
            took.append(time.monotonic() - began)
    print(f"median {percentile(took, 0.5) * 1e3:.1f} ms, slowest {max(took) * 1e3:.1f} ms")
    assert percentile(took, 0.9) < 0.1, sorted(took)[-10:]
    assert max(took) < 0.5
    ids = outbox.insert_many(50)
    receiver.wait_for_ids(ids, 10)
    assert relay.memory_peak() < 64 << 20


def test_a_live_scrape_passes_promtool_and_has_at_most_300_series(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    for number in range(60):
        outbox.insert(event_type=f"kind.number{number}")
    bad = outbox.insert(event_type="asset.poison", headers="{")
    until(lambda: outbox.unfinished() == 0, 15, lambda: f"{outbox.states()}")
    assert outbox.row(bad)["status"] == "DeadLettered"
    until(lambda: relay.metrics().matching("dead_letters", event_type="asset.poison")
          or relay.metrics().matching("dead_letters", event_type="__other__"), 10, "sampled")
    scrape = relay.metrics()
    checked = subprocess.run(["promtool", "check", "metrics"], input=scrape.text, text=True,
                             capture_output=True, timeout=30)
    assert checked.returncode == 0 and not checked.stderr.strip(), checked.stderr + checked.stdout
    assert len(scrape.samples) <= 300, len(scrape.samples)
    assert scrape.sum("published_total") == 60
    assert scrape.value("published_total", event_type="__other__") >= 40
    assert scrape.sum("metric_label_overflow_total") >= 1
    assert all(key[0].startswith(("outbox_relay_", "process_")) for key in scrape.samples)


FAMILIES = """broker_circuit_open_total broker_fault_total broker_circuit_state
broker_circuit_transitions_total broker_circuit_open_seconds_total
broker_circuit_next_probe_timestamp_seconds broker_up broker_in_flight_limit broker_info
destinations_held publish_attempts_total published_total publish_failures_total retries_total
dead_lettered_total redriven_total redelivered_total messages oldest_pending_age_seconds
dead_letters backlog_sample_timestamp_seconds delivery_lag_seconds_count
publish_duration_seconds_count store_up store_faults_total store_operation_duration_seconds_count
leases_held lease_expired_total settlements_fenced_total active paused
last_poll_success_timestamp_seconds sqlite_wal_bytes sqlite_busy_total
config_last_reload_successful config_info metric_label_overflow_total build_info
process_cpu_seconds_total process_resident_memory_bytes process_open_fds
process_start_time_seconds""".split()


def test_every_family_of_the_contract_exists_from_the_start(world):
    relay = world.relay(world.outbox(), world.receiver())
    scrape = relay.metrics()
    missing = [name for name in FAMILIES if not scrape.matching(name)]
    assert missing == []
    assert {dict(labels)["state"] for _, labels in scrape.matching("broker_circuit_state")} == {
        "closed", "open", "half_open", "isolated"}
    assert {dict(labels)["kind"] for _, labels in scrape.matching("publish_failures_total")} == {
        "transport", "throttled", "misconfigured", "refused", "conflict"}
    assert {dict(labels)["status"] for _, labels in scrape.matching("messages")} == {
        "pending", "failed", "leased", "dead_lettered"}
    assert {dict(labels)["reason"] for _, labels in scrape.matching("dead_lettered_total")} == {
        "attempts_exhausted", "permanent", "oversized", "invalid_row", "misconfigured", "crashed"}


def test_the_backlog_and_its_age_are_told(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"hang": True})
    relay = world.relay(outbox, receiver, {"relay": {"batchSize": 10, "maxInFlight": 10}})
    outbox.insert_many(50)
    until(lambda: relay.metric("messages", status="leased") == 10, 10, "ten are leased")
    assert relay.metric("messages", status="pending") == 40
    until(lambda: relay.metric("oldest_pending_age_seconds") > 1, 10, "the oldest grows older")
    assert relay.metric("leases_held") == 10
