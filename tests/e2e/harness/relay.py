"""The relay as a process: configuration, log, health, metrics, memory, signals."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from .metrics import Metrics
from .process import die_with_parent, kill_and_reap
from .waiting import until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "servers"))

from ports import free_port  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


def binary():
    return os.path.abspath(os.environ.get("OUTBOX_RELAY_BIN")
                           or os.path.join(ROOT, "build", "dev", "outbox-relay"))


def merged(base, over):
    """Nested settings; those of `over` win."""
    result = dict(base)
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return result


def to_yaml(value, depth=0):
    """Enough YAML for a configuration: nested maps, and scalars and lists in JSON's spelling."""
    lines = []
    for name, item in value.items():
        if isinstance(item, dict) and item:
            lines.append("  " * depth + f"{name}:")
            lines.append(to_yaml(item, depth + 1))
        else:
            lines.append("  " * depth + f"{name}: {json.dumps(item)}")
    return "\n".join(lines)


def run_command(*arguments, timeout=30, **options):
    """Runs the program to its end."""
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=timeout,
                          **options)


class Relay:
    """One relay on one outbox. Nothing runs until start()."""

    def __init__(self, folder, store_url, broker_url, settings=None, name="relay", user=None):
        self.name = name
        self.port = free_port()
        self.user = user
        self.program = binary()
        self.process = None
        self.environment = {}
        self.config_path = os.path.join(folder, f"{name}.yaml")
        self.log_path = os.path.join(folder, f"{name}.log")
        self.out_path = os.path.join(folder, f"{name}.out")
        base = {
            "store": {"url": store_url},
            "brokers": {"main": {"url": broker_url}},
            "http": {"listen": f"127.0.0.1:{self.port}"},
        }
        self.settings = merged(base, settings or {})
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(to_yaml(self.settings) + "\n")

    def start(self, wait=True, seconds=10):
        assert not self.running(), f"{self.name} runs already"
        identity = {"user": self.user, "group": "nogroup", "extra_groups": []} if self.user else {}
        with open(self.log_path, "ab") as log, open(self.out_path, "ab") as out:
            self.process = subprocess.Popen(
                [self.program, "run", "--config", self.config_path], stdin=subprocess.DEVNULL,
                stdout=out, stderr=log, preexec_fn=die_with_parent,
                env={**os.environ, **self.environment}, **identity)
        if wait:
            self.wait_ready(seconds)
        return self

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def wait_ready(self, seconds=10):
        def ready():
            assert self.running(), f"{self.name} ended with {self.process.returncode}"
            return self.get("/readyz")[0] == 200

        until(ready, seconds, lambda: f"{self.name} ready: {self.get('/readyz')}", poll=0.01)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def stop(self, seconds=30):
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit(seconds)

    def wait_exit(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds} s") from None

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def close(self):
        if self.process is not None:
            kill_and_reap(self.process)

    def get(self, path, timeout=5):
        """(status, body), status 0 when nobody answers."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metrics(self):
        return Metrics.scrape(self.port)

    def metric(self, name, **labels):
        """The sum of the series that have these labels."""
        return self.metrics().sum(name, **labels)

    def circuit(self):
        """The one state that is 1."""
        states = self.metrics().matching("broker_circuit_state")
        current = [dict(labels)["state"] for (_, labels), value in states.items() if value == 1]
        assert len(current) == 1, f"{len(current)} circuit states at once: {current}"
        return current[0]

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def log(self):
        """The log's lines; each one must be a JSON object."""
        entries = []
        for line in self.log_text().splitlines():
            entry = json.loads(line)
            assert isinstance(entry, dict), f"not a JSON object: {line!r}"
            entries.append(entry)
        return entries

    def log_tail(self, lines=60):
        if not os.path.exists(self.log_path):
            return "(never started)"
        return "\n".join(self.log_text().splitlines()[-lines:])

    def memory_peak(self):
        """The most memory it ever had resident, in bytes."""
        return self._status_bytes("VmHWM")

    def memory(self):
        return self._status_bytes("VmRSS")

    def _status_bytes(self, name):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name} of {self.name}")

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_circuit(self, state, seconds):
        until(lambda: self.circuit() == state, seconds,
              lambda: f"circuit {state}, now {self.circuit()}")

    def wait_log(self, text, seconds=10):
        until(lambda: text in self.log_text(), seconds, f"{text!r} in the log of {self.name}")


def now():
    """The clock of all logs of the harness."""
    return time.monotonic()
