"""Child processes that never outlive the test run."""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
HARNESS = os.path.dirname(os.path.abspath(__file__))
PYTHON = sys.executable


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def replace_file(path, text):
    """As an operator does it: the new file takes the place of the old one at once."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


def kill_and_reap(process):
    """Ends a child for certain, also one that is stopped."""
    if process.poll() is None:
        process.kill()
    process.wait()


class Helper:
    """A process of the harness: takes one JSON command a line on stdin, answers one line on stdout.

    It ends when its stdin does, so it can't outlive the test that owns it.
    """

    script = ""
    replies_within = 30.0

    def __init__(self, **arguments):
        self.process = subprocess.Popen(
            self.command(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=False,
            bufsize=0,
            preexec_fn=die_with_parent,
        )
        self._pending = b""
        self.hello = self._reply()

    def command(self, arguments):
        return [PYTHON, "-u", os.path.join(HARNESS, self.script), json.dumps(arguments)]

    def call(self, command, **arguments):
        line = json.dumps({"command": command, **arguments}) + "\n"
        self.process.stdin.write(line.encode())
        return self._reply()

    def _reply(self):
        deadline = time.monotonic() + self.replies_within
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(left, 0))
            assert ready, f"{self.script} did not answer within {self.replies_within:g} s"
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            assert piece, f"{self.script} ended by itself (exit code {self.process.wait()})"
            self._pending += piece
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        kill_and_reap(self.process)
        self.process.stdin.close()
        self.process.stdout.close()


class LineLog:
    """Reads a growing file of JSON lines, each line once."""

    def __init__(self, path):
        self._path = path
        self._offset = 0
        self._entries = []

    def entries(self):
        """All lines so far, oldest first. The list is shared: don't change it."""
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        for line in data[:end].splitlines():
            self._entries.append(json.loads(line))
        self._offset += end
        return self._entries
