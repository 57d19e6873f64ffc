"""The sides of a pair: the raw tools and the relay, each as a process that is measured."""

import dataclasses
import json
import os
import subprocess
import time

from harness.process import die_with_parent
from harness.relay import Relay
from harness.waiting import until

import machine
import outboxes

BATCH = 100
SERIAL = {"relay": {"batchSize": BATCH, "maxInFlight": BATCH}}
PACE = 200  # events a second at low load
TIME_LIMIT = 300
POLL = 0.02


@dataclasses.dataclass
class Flow:
    """How quickly messages went through, and at what price."""

    rate: float  # messages a second
    cpu: float  # processor seconds a message
    memory_peak: int = 0  # bytes; of the relay


class Tools:
    """The program with the raw sides."""

    def __init__(self, build, folder):
        self.program = os.path.join(build, "outbox-relay-bench")
        self.folder = folder

    def call(self, command, **options):
        """Runs one of its commands to the end and returns what it printed."""
        arguments = [self.program, command]
        for name, value in options.items():
            arguments += ["--" + name.replace("_", "-"), str(value)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIME_LIMIT)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def flow(self, command, **options):
        said = self.call(command, **options)
        return Flow(said["count"] / said["seconds"], said["cpu_seconds"] / said["count"])

    def record(self, command, **options):
        """{id: (from, to)} in seconds."""
        path = os.path.join(self.folder, f"{command}.record")
        self.call(command, record=path, **options)
        return read_record(path)

    def receiver(self, record=False):
        return Receiver(self, os.path.join(self.folder, "receiver.record") if record else None)

    def consumer(self, port, count):
        return Consumer(self, port, count)


def read_record(path):
    record = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, begin, end = line.split()
            record[name] = int(begin) / 1e9, int(end) / 1e9
    return record


class Receiver:
    """Accepts events as long as the block runs."""

    def __init__(self, tools, record_path):
        self.record_path = record_path
        self._arguments = [tools.program, "receiver"]
        if record_path:
            self._arguments += ["--record", record_path]

    def __enter__(self):
        self.process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        preexec_fn=die_with_parent)
        self.port = json.loads(self.process.stdout.readline())["port"]
        self.url = f"http://127.0.0.1:{self.port}/inbox"
        return self

    def __exit__(self, *error):
        self.close()

    def cpu_seconds(self):
        return machine.cpu_seconds(self.process.pid)

    def close(self):
        """Ends it; returns how many requests it answered."""
        said, _ = self.process.communicate(timeout=TIME_LIMIT)
        return json.loads(said)["count"] if said else 0

    def answered(self):
        """When each request was answered; after the end."""
        return {name: end for name, (_, end) in read_record(self.record_path).items()}


class Consumer:
    """Takes messages out of RabbitMQ's queue, as long as the block runs, and notes when."""

    def __init__(self, tools, port, count):
        self.record_path = os.path.join(tools.folder, "consumer.record")
        self._arguments = [tools.program, "consumer", "--port", str(port), "--count", str(count),
                           "--record", self.record_path]

    def __enter__(self):
        self.process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        preexec_fn=die_with_parent)
        self.process.stdout.readline()  # it is subscribed
        return self

    def __exit__(self, *error):
        self.process.communicate(timeout=TIME_LIMIT)

    def arrived(self):
        """When each message arrived, after all of them have."""
        self.process.wait(timeout=TIME_LIMIT)
        return {name: end for name, (_, end) in read_record(self.record_path).items()}


def new_relay(folder, outbox, broker_url, settings=None):
    return Relay(folder, outbox.url, broker_url, settings, name="relay")


def wait_drained(relay, outbox):
    """The question costs a look into one index, seldom enough not to disturb."""
    database = outboxes.open_read_only(outbox)
    try:
        def drained():
            if not relay.running():
                raise RuntimeError(f"the relay ended by itself:\n{relay.log_tail()}")
            return not outboxes.some_pending(database)

        until(drained, TIME_LIMIT, "all rows processed", poll=POLL)
    finally:
        database.close()


def drain(folder, outbox, broker_url, settings=None):
    """The relay sends all pending rows. The time is taken from the rows themselves: from the first
    settled batch, which is not counted, to the last."""
    before = outbox.value(
        "SELECT coalesce(max(sequence), 0) FROM outbox_messages WHERE status = 'Processed'")
    relay = new_relay(folder, outbox, broker_url, settings)
    try:
        relay.start(wait=False)
        wait_drained(relay, outbox)
        cpu, peak = machine.cpu_seconds(relay.pid), relay.memory_peak()
        relay.stop()
    finally:
        relay.close()
    first, last, seconds = outbox.query(
        "SELECT min(processed_on_utc), max(processed_on_utc),"
        " 86400 * (julianday(max(processed_on_utc)) - julianday(min(processed_on_utc)))"
        " FROM outbox_messages WHERE sequence > ?", before)[0]
    total, late = outbox.query(
        "SELECT count(*), count(*) FILTER (WHERE processed_on_utc > ?) FROM outbox_messages"
        " WHERE sequence > ? AND status = 'Processed'", first, before)[0]
    failed = outbox.value("SELECT count(*) FROM outbox_messages WHERE status <> 'Processed'")
    if failed or last == first:
        raise RuntimeError(f"{failed} rows were not delivered:\n{relay.log_tail()}")
    return Flow(late / seconds, cpu / total, peak)


def start_to_ready(folder, outbox, broker_url):
    """Seconds from the start of the process to the first good answer of /readyz."""
    relay = new_relay(folder, outbox, broker_url)
    try:
        began = time.monotonic()
        relay.start(wait=False)
        until(lambda: relay.get("/readyz")[0] == 200, 30, "the relay is ready", poll=0.001)
        took = time.monotonic() - began
        relay.stop()
    finally:
        relay.close()
    return took
