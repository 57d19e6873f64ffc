"""An upgrade and a rollback on one table: the program of the commit before, and this one.

OUTBOX_PREVIOUS names another commit to come from, OUTBOX_PREVIOUS_BIN a program to take as it is.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

from harness import checks
from harness.relay import run_command
from harness.waiting import until
from harness.world import wait_processed

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = {"relay": {"batchSize": 20, "maxInFlight": 40, "leaseTerm": "10s"},
            "retry": {"baseDelay": "200ms", "maxDelay": "1s"}}


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def build(commit, folder):
    """Builds the program of a commit as a user would, without tests."""
    source = folder / "source"
    source.mkdir(parents=True)
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE)
    assert run("tar", "-x", "-C", source, stdin=archive.stdout).returncode == 0
    assert archive.wait() == 0
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DOUTBOX_TESTS=OFF",
               "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1"]
    for words in (["cmake", "-S", source, "-B", folder / "build", *options],
                  ["cmake", "--build", folder / "build", "--target", "outbox-relay"]):
        done = run(*words, timeout=1200)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.fixture(scope="module")
def previous():
    if os.environ.get("OUTBOX_PREVIOUS_BIN"):
        return os.path.abspath(os.environ["OUTBOX_PREVIOUS_BIN"])
    if shutil.which("git") is None or shutil.which("cmake") is None:
        pytest.skip("needs git and cmake to build the commit before")
    wanted = os.environ.get("OUTBOX_PREVIOUS", "HEAD~1")
    found = run("git", "-C", ROOT, "rev-parse", "--verify", "--quiet", wanted + "^{commit}")
    if found.returncode != 0:
        pytest.skip(f"this checkout has no commit {wanted}: a clone without history")
    folder = ROOT / "build" / "previous" / found.stdout.strip()
    program = folder / "build" / "outbox-relay"
    if not program.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        build(found.stdout.strip(), folder)
    return str(program)


def relay_of(world, outbox, receiver, name, program=None):
    relay = world.relay(outbox, receiver, SETTINGS, name=name, start=False)
    if program:
        relay.program = program
    return relay


def kill_with_rows_leased(relay, outbox):
    """As a node that is lost in the middle of an upgrade. Returns how many rows were held."""
    relay.start()
    until(lambda: outbox.leases() >= 10, 20, f"{relay.name} holds rows")
    relay.kill()
    return outbox.leases()


def test_upgrade_and_rollback_with_rows_leased_lose_nothing(world, previous):
    outbox, receiver = world.outbox(), world.receiver()
    ids = outbox.insert_many(400)
    retried = outbox.insert_many(5, event_type="asset.retried")
    refused = outbox.insert_many(3, event_type="asset.refused")
    receiver.rules({"types": ["asset.refused"], "status": 400},
                   {"types": ["asset.retried"], "status": 500, "times": 12}, {"delay": 0.2})
    held = kill_with_rows_leased(relay_of(world, outbox, receiver, "old", previous), outbox)
    held += kill_with_rows_leased(relay_of(world, outbox, receiver, "new"), outbox)
    held += kill_with_rows_leased(relay_of(world, outbox, receiver, "back", previous), outbox)
    assert held >= 30
    receiver.rules({"types": ["asset.refused"], "status": 400})
    last = relay_of(world, outbox, receiver, "last").start()
    receiver.wait_for_ids(ids + retried, 60)
    until(lambda: outbox.states() == {"Processed": 405, "DeadLettered": len(refused)}, 30,
          "all are decided")
    repeats = checks.repeats(receiver.accepted())
    # At each kill: what travelled on four connections, and a batch that was not settled yet.
    assert len(repeats) <= 3 * (4 + 20), checks.report(repeats)
    assert last.stop() == 0
    assert outbox.leases() == 0


def test_both_versions_at_once_share_a_table_and_send_no_id_twice(world, previous):
    """As during a rolling update."""
    outbox, receiver = world.outbox(), world.receiver()
    relays = [relay_of(world, outbox, receiver, "old", previous).start(),
              relay_of(world, outbox, receiver, "new").start()]
    writer = world.writer(outbox, count=3_000, keys=20)
    assert writer.wait(60)["errors"] == []
    receiver.wait_for_ids(writer.ids(), 60)
    wait_processed(outbox, 20)
    assert checks.repeats(receiver.requests()) == []
    assert all(relay.metric("published_total") > 0 for relay in relays)
    assert [relay.stop() for relay in relays] == [0, 0]


def test_what_one_version_has_noted_the_other_reads(world, previous):
    """Dead letters, attempts and an isolated circuit, forth and back."""
    outbox, receiver = world.outbox(), world.receiver()
    refused = outbox.insert(event_type="asset.refused")
    receiver.rules({"types": ["asset.refused"], "status": 400})
    old = relay_of(world, outbox, receiver, "old", previous).start()
    until(lambda: outbox.states() == {"DeadLettered": 1}, 20, "it is dead")
    assert old.stop() == 0
    receiver.rules()
    redriven = run_command("dead-letters", "redrive", "--yes", "--reason", "mended", "--store",
                           outbox.url)
    assert redriven.returncode == 0, redriven.stderr
    held = run_command("broker", "isolate", "--reason", "test", "--store", outbox.url)
    assert held.returncode == 0, held.stderr
    old = relay_of(world, outbox, receiver, "again", previous).start()
    until(lambda: old.circuit() == "isolated", 20, "the old one heeds what the new one wrote")
    freed = run(previous, "broker", "close", "--store", outbox.url)
    assert freed.returncode == 0, freed.stderr
    receiver.wait_for_ids([refused], 20)
    assert old.stop() == 0
