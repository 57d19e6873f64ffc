"""broker test explains each step to the broker and what the relay would make of its answer."""

import base64
import json
import os
import socket
import subprocess
import threading
import time

import pytest

from harness.process import replace_file
from harness.relay import free_port, run_command
from harness.world import wait_processed

from test_doctor import doctor
from test_http_broker import certificate


def ask(url, *arguments):
    """(exit code, the answer)."""
    done = run_command("broker", "test", "--broker", url, "-o", "json", *arguments)
    return done.returncode, json.loads(done.stdout)


def steps(answer):
    return {step["step"]: step["done"] for step in answer["steps"]}


def codes(answer):
    return {finding["code"] for finding in answer["findings"]}


def test_a_broker_that_answers_is_reached_and_gets_nothing_to_deliver(world):
    receiver = world.receiver()
    code, answer = ask(receiver.url)
    assert code == 0 and answer["outcome"] == "confirmed" and not answer["findings"]
    assert steps(answer) == {"resolve": True, "connect": True, "answer": True}
    assert [request["method"] for request in receiver.requests()] == ["OPTIONS"]
    assert [request["size"] for request in receiver.requests()] == [0]
    text = run_command("broker", "test", "--broker", receiver.url)
    assert text.returncode == 0 and "confirmed" in text.stdout and "Processed" in text.stdout


def test_an_event_sent_on_demand_is_marked_as_a_test(world):
    receiver = world.receiver()
    code, answer = ask(receiver.url, "--send")
    assert code == 0 and steps(answer)["send"]
    event = receiver.requests()[-1]
    assert event["method"] == "POST" and event["type"] == "outbox-relay.test"
    assert event["id"].startswith("outbox-relay-test-")


def test_an_event_sent_on_demand_is_signed_like_any_other(world):
    receiver = world.receiver()
    path = os.path.join(world.folder, "keys")
    with open(path, "w", encoding="utf-8") as file:
        file.write("whsec_" + base64.b64encode(b"k" * 32).decode() + "\n")
    code, answer = ask(receiver.url, "--send", "--set", f"brokers.main.signingKeyFile={path}")
    assert code == 0 and answer["outcome"] == "confirmed", answer
    headers = dict(receiver.requests()[-1]["headers"])
    assert headers["webhook-id"].startswith("outbox-relay-test-")
    assert headers["webhook-signature"].startswith("v1,")


@pytest.mark.parametrize("status, outcome, finding", [
    (401, "misconfigured", "broker_denied"), (403, "misconfigured", "broker_denied"),
    (404, "misconfigured", "broker_path"), (302, "misconfigured", "broker_answer"),
    (503, "transport", "broker_answer"), (429, "throttled", "broker_answer")])
def test_an_answer_that_stops_delivery_is_explained(world, status, outcome, finding):
    receiver = world.receiver()
    receiver.rules({"status": status})
    code, answer = ask(receiver.url)
    assert code == 1 and answer["outcome"] == outcome and codes(answer) == {finding}
    assert str(status) in answer["findings"][0]["what"]
    code, answer = ask(receiver.url, "--send")
    sent = "broker_send" if status in (503, 429) else finding
    assert code == 1 and codes(answer) == {sent} and answer["outcome"] == outcome
    assert str(status) in answer["findings"][0]["what"]
    assert ("own log" in answer["findings"][0]["fix"]) == (sent == "broker_send")


def test_a_receiver_that_knows_post_only_is_reached(world):
    receiver = world.receiver()
    receiver.rules({"status": 405})
    code, answer = ask(receiver.url)
    assert code == 0 and not answer["findings"], answer
    assert answer["outcome"] == "unknown" and "--send" in answer["meaning"]
    assert [request["method"] for request in receiver.requests()] == ["OPTIONS", "HEAD"]
    shown = run_command("broker", "test", "--broker", receiver.url)
    assert shown.returncode == 0
    assert "unknown without an event; try --send" in shown.stdout
    assert "confirmed" not in shown.stdout
    receiver.rules()
    assert ask(receiver.url, "--send")[1]["outcome"] == "confirmed"


def test_what_a_broker_says_to_an_event_counts_more_than_what_it_said_before(world):
    receiver = world.receiver()
    receiver.rules({"types": ["outbox-relay.test"]}, {"status": 401})
    assert ask(receiver.url)[0] == 1
    code, answer = ask(receiver.url, "--send")
    assert code == 0 and answer["outcome"] == "confirmed" and not answer["findings"], answer


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_https_at_a_port_that_speaks_http_is_told_as_such(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            for _ in range(2):  # the test connects without TLS first
                connection, _ = server.accept()
                with connection:
                    if connection.recv(4096):
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        code, found = ask(f"https://127.0.0.1:{server.getsockname()[1]}/")
        thread.join(10)
    assert code == 1 and codes(found) == {"broker_tls"}
    fix = found["findings"][0]["fix"]
    assert "http://" in fix and "caFile" not in fix, found


def test_what_a_broker_refuses_of_an_event_is_told_by_sending_one(world):
    receiver = world.receiver()
    receiver.rules({"types": ["outbox-relay.test"], "status": 422})
    assert ask(receiver.url)[0] == 0
    code, answer = ask(receiver.url, "--send")
    assert code == 1 and answer["outcome"] == "refused"


def test_a_port_where_nobody_listens_is_not_reachable():
    code, answer = ask(f"http://127.0.0.1:{free_port()}/inbox")
    assert code == 3 and codes(answer) == {"broker_unreachable"}
    assert steps(answer) == {"resolve": True, "connect": False}
    assert "refused" in answer["findings"][0]["what"].lower()


def test_a_name_that_nobody_knows_is_told_as_such():
    code, answer = ask("http://no-such-host.invalid/inbox", "--set", "brokers.main.publishTimeout=2s")
    assert code == 3 and codes(answer) == {"broker_name"}
    assert "no-such-host.invalid" in answer["findings"][0]["what"]


def test_a_broker_that_never_answers_ends_by_the_time_out():
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        code, answer = ask(f"http://127.0.0.1:{server.getsockname()[1]}/",
                           "--set", "brokers.main.publishTimeout=500ms")
        assert 0.5 <= time.monotonic() - began < 5
    assert code == 1 and codes(answer) == {"broker_answer"} and not steps(answer)["answer"]


def test_a_certificate_is_trusted_or_not_and_one_that_ends_soon_is_a_warning(world):
    paths = certificate(world.folder)
    receiver = world.receiver(*paths)
    code, answer = ask(receiver.url)
    assert code == 1 and codes(answer) == {"broker_tls"} and not steps(answer)["tls"]
    assert "certificate" in answer["findings"][0]["what"]
    code, answer = ask(receiver.url, "--set", f"brokers.main.tls.caFile={paths[0]}")
    assert code == 1 and codes(answer) == {"broker_certificate"} and steps(answer)["tls"]
    subprocess.run(["openssl", "req", "-x509", "-key", paths[1], "-days", "200", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-out", paths[0]],
                   check=True, capture_output=True, timeout=30)
    renewed = world.receiver(*paths)
    code, answer = ask(renewed.url, "--set", f"brokers.main.tls.caFile={paths[0]}")
    assert code == 0 and not codes(answer), answer


def test_the_credential_is_shown_to_the_broker_only(world):
    receiver = world.receiver()
    path = os.path.join(world.folder, "token")
    with open(path, "w", encoding="utf-8") as file:
        file.write("s3cret\n")
    done = run_command("broker", "test", "--send", "--broker", receiver.url,
                       "--set", f"brokers.main.bearerTokenFile={path}")
    assert done.returncode == 0 and "s3cret" not in done.stdout + done.stderr
    for request in receiver.requests():
        assert dict(request["headers"])["authorization"] == "Bearer s3cret"


def test_the_doctor_sees_what_the_broker_test_sees(world):
    outbox, receiver = world.outbox(), world.receiver()
    assert doctor(outbox, "--broker", receiver.url)[0] == 0
    receiver.rules({"status": 401})
    code, findings = doctor(outbox, "--broker", receiver.url)
    assert code == 1 and findings["broker_denied"]["severity"] == "error"
    code, findings = doctor(outbox, "--broker", f"http://127.0.0.1:{free_port()}/")
    assert code == 3 and "broker_unreachable" in findings


def test_only_who_speaks_to_the_broker_needs_the_files_it_takes(world):
    outbox, receiver = world.outbox(), world.receiver()
    missing = os.path.join(world.folder, "missing")
    garbage = os.path.join(world.folder, "garbage")
    with open(garbage, "w", encoding="utf-8") as file:
        file.write("not a key\n")
    flags = ["--store", outbox.url, "--broker", receiver.url,
             "--set", f"brokers.main.bearerTokenFile={missing}",
             "--set", f"brokers.main.signingKeyFile={garbage}"]
    for command in (["run"], ["validate"], ["broker", "test"]):
        refused = run_command(*command, *flags)
        assert refused.returncode == 78, (command, refused)
        assert f'flag --set: brokers.main.bearerTokenFile = "{missing}"' in refused.stderr
        assert f'flag --set: brokers.main.signingKeyFile = "{garbage}"' in refused.stderr
    for command in (["status"], ["dead-letters", "list"], ["messages", "find"], ["pause"],
                    ["resume"], ["broker", "isolate"], ["broker", "close"], ["print-config"],
                    ["wait", "--for", "table", "--timeout", "0s"]):
        done = run_command(*command, *flags)
        assert done.returncode == 0, (command, done)
    assert run_command("init", "--check", *flags).returncode in (0, 5)
    code, findings = doctor(outbox, *flags[2:])
    assert code == 1 and findings["broker_file"]["severity"] == "error"
    assert findings["broker_file"]["what"].startswith("brokers.main.")
    assert not receiver.requests()


def test_a_file_that_turns_bad_while_the_relay_runs_is_told_and_so_is_its_return(world):
    outbox, receiver = world.outbox(), world.receiver()
    path = os.path.join(world.folder, "token")
    replace_file(path, "s3cret\n")
    relay = world.relay(outbox, receiver, {"brokers": {"main": {"bearerTokenFile": path}}})
    os.remove(path)
    relay.wait_log("a file of the broker can't be used", 20)
    (line,) = [entry for entry in relay.log() if "can't be used" in entry["msg"]]
    assert line["level"] == "warn" and line["file"] == path
    assert line["path"] == "brokers.main.bearerTokenFile" and "No such file" in line["error"]
    outbox.insert_many(10)
    wait_processed(outbox, 10)
    assert {dict(r["headers"])["authorization"] for r in receiver.requests()} == {"Bearer s3cret"}
    replace_file(path, "s3cret\n")
    relay.wait_log("a file of the broker can be used again", 20)
    assert "s3cret" not in relay.log_text()


@pytest.mark.parametrize("url", ["null:", "stdout:"])
def test_brokers_without_a_connection_have_nothing_that_fails(url):
    done = run_command("broker", "test", "--broker", url)
    assert done.returncode == 0 and "nothing to connect to" in done.stdout
