"""A changed configuration file is read while the relay runs."""

import os
import re
import signal

import yaml
from harness.process import replace_file
from harness.relay import merged, run_command, to_yaml
from harness.waiting import holds, until
from harness.world import wait_processed


def rewrite(relay, settings, text=None):
    replace_file(relay.config_path, text or to_yaml(merged(relay.settings, settings)) + "\n")


def successful(relay):
    return relay.metrics().value("config_last_reload_successful")


def digest(relay):
    (labels,) = [dict(labels) for (_, labels) in relay.metrics().matching("config_info")]
    return labels["sha256"]


def printed_digest(relay):
    done = run_command("print-config", "--digest", "--config", relay.config_path)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_changed_ladder_and_poll_interval_apply_to_the_running_relay(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 503})
    relay = world.relay(outbox, receiver)
    before = digest(relay)
    assert before == printed_digest(relay)
    # Now a row dies of two failures, and no circuit opens before.
    rewrite(relay, {"retry": {"maxAttempts": 2, "baseDelay": "10ms", "redeliveryIntervals": [],
                              "outageGuard": False},
                    "breaker": {"consecutiveFailures": 0, "minimumThroughput": 1000000},
                    "relay": {"batchSize": 3, "pollInterval": "50ms"}})
    relay.wait_log("configuration taken over")
    assert digest(relay) == printed_digest(relay) != before
    line = [entry for entry in relay.log() if entry["msg"] == "configuration taken over"][0]
    assert line["relay.batchSize"] == "3" and line["retry.maxAttempts"] == "2"
    assert successful(relay) == 1
    assert "needs restart" not in relay.log_text()
    outbox.insert_many(20)
    until(lambda: outbox.states().get("DeadLettered") == 20, 20, outbox.states)
    assert len(receiver.requests()) == 40


def test_a_shorter_break_counts_from_the_next_break_on_and_the_circuit_keeps_its_state(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 503})
    relay = world.relay(outbox, receiver, {"breaker": {"breakDuration": "3s"}})
    outbox.insert_many(30)
    relay.wait_circuit("open", 10)
    rewrite(relay, {"breaker": {"breakDuration": "100ms"}})
    relay.wait_log("configuration taken over")
    transitions = relay.metric("broker_circuit_transitions_total", to="closed")
    assert transitions == 0, "a reload must not close the circuit"
    receiver.rules()
    wait_processed(outbox, 20)


def test_a_bad_file_keeps_the_settings_and_shows_until_it_is_mended(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    before = digest(relay)
    rewrite(relay, {}, "relay: { batchSize: 0, leaseTermm: 1s }\n")
    until(lambda: successful(relay) == 0, 10, "the metric shows the refusal")
    problems = [entry["problem"] for entry in relay.log() if "problem" in entry]
    assert len(problems) == 4, problems
    assert any("relay.batchSize" in text for text in problems)
    assert any("did you mean \"leaseTerm\"" in text for text in problems)
    assert digest(relay) == before
    outbox.insert_many(10)
    wait_processed(outbox, 10)
    rewrite(relay, {})
    until(lambda: successful(relay) == 1, 10, "the metric shows that it is mended")
    assert relay.stop() == 0


def test_a_pipe_in_the_place_of_the_file_is_refused_and_stops_nothing(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    os.unlink(relay.config_path)
    os.mkfifo(relay.config_path)
    until(lambda: successful(relay) == 0, 10, "the metric shows the refusal")
    assert "is no regular file" in relay.log_text()
    outbox.insert_many(10)
    wait_processed(outbox, 10)
    rewrite(relay, {})
    until(lambda: successful(relay) == 1, 10, "the metric shows that it is mended")
    assert relay.stop() == 0


def test_sighup_reads_the_file_even_where_nothing_is_noticed(world):
    outbox = world.outbox()
    relay = world.relay(outbox, "null:")
    relay.signal(signal.SIGHUP)
    relay.wait_log("configuration read again, nothing to take over")
    assert relay.running()


def test_what_needs_a_restart_is_told_once_each_with_its_path(world):
    outbox = world.outbox()
    relay = world.relay(outbox, "null:")
    rewrite(relay, {"relay": {"leaseTerm": "40s"}, "metrics": {"eventTypeLimit": 3}})
    until(lambda: relay.log_text().count("needs restart") == 2, 10, "two lines")
    told = {entry["path"]: entry for entry in relay.log() if entry["msg"] == "needs restart"}
    assert set(told) == {"relay.leaseTerm", "metrics.eventTypeLimit"}
    assert told["relay.leaseTerm"]["in_force"] == "10s"
    assert told["relay.leaseTerm"]["in_file"] == "40s"
    assert successful(relay) == 1


def test_a_configmap_that_kubernetes_swaps_is_noticed(world):
    """relay.yaml -> ..data/relay.yaml, ..data -> ..1: an update exchanges the link ..data."""
    outbox = world.outbox()
    relay = world.relay(outbox, "null:", start=False)
    mount = os.path.join(world.folder, "mount")
    os.mkdir(mount)

    def publish(version, settings):
        folder = os.path.join(mount, f"..{version}")
        os.mkdir(folder)
        with open(os.path.join(folder, "relay.yaml"), "w", encoding="utf-8") as file:
            file.write(to_yaml(merged(relay.settings, settings)) + "\n")
        os.symlink(f"..{version}", os.path.join(mount, "..data_tmp"))
        os.rename(os.path.join(mount, "..data_tmp"), os.path.join(mount, "..data"))

    publish(1, {})
    os.symlink("..data/relay.yaml", os.path.join(mount, "relay.yaml"))
    relay.config_path = os.path.join(mount, "relay.yaml")
    relay.start()
    for version, attempts in ((2, 5), (3, 7)):
        publish(version, {"retry": {"maxAttempts": attempts}})
        relay.wait_log(f'"retry.maxAttempts":"{attempts}"')
    assert relay.stop() == 0


def test_a_hundred_changes_under_load_lose_nothing_and_repeat_nothing(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    for round_number in range(100):
        outbox.insert_many(20)
        rewrite(relay, {"relay": {"batchSize": 1 + round_number % 40,
                                  "pollInterval": f"{10 + round_number}ms"},
                        "breaker": {"probes": 1 + round_number % 3}})
        relay.signal(signal.SIGHUP)
    wait_processed(outbox, 60)
    assert successful(relay) == 1
    assert len(receiver.requests()) == len(set(receiver.accepted_ids())) == 2000
    assert relay.stop() == 0


def test_print_config_prints_a_file_that_comes_to_the_same(world, tmp_path):
    relay = world.relay(world.outbox(), "null:", start=False)
    printed = run_command("print-config", "--config", relay.config_path)
    path = tmp_path / "again.yaml"
    path.write_text(printed.stdout)
    again = run_command("print-config", "--config", str(path))
    assert again.returncode == 0 and again.stdout == printed.stdout
    settings = yaml.safe_load(printed.stdout)
    assert settings["relay"]["leaseTerm"] == "10s"
    sources = run_command("print-config", "--sources", "--config", relay.config_path).stdout
    assert re.search(r"leaseTerm: 10s +# .*relay\.yaml:\d+:\d+", sources), sources
    defaults = run_command("print-config", "--defaults", "--config", "/no/such/file")
    assert defaults.returncode == 0, defaults.stderr
    assert yaml.safe_load(defaults.stdout)["relay"]["leaseTerm"] == "30s"


def test_an_untouched_file_is_not_read_again(world):
    relay = world.relay(world.outbox(), "null:")
    with open(os.path.join(world.folder, "another.yaml"), "w", encoding="utf-8") as file:
        file.write("relay: {}\n")
    holds(lambda: "configuration" not in relay.log_text(), 1, "nothing is read")


def test_a_shorter_retention_applies_to_the_running_relay(world):
    outbox = world.outbox()
    relay = world.relay(outbox, "null:", {"retention": {"interval": "1s"}})
    outbox.insert_many(50)
    wait_processed(outbox, 10)
    rewrite(relay, {"retention": {"interval": "1s", "processed": "0s"}})
    until(lambda: outbox.value("SELECT count(*) FROM outbox_messages") == 0, 20,
          lambda: f"delivered rows are removed: {outbox.states()}")
    assert "needs restart" not in relay.log_text()
