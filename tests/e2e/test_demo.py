"""The demonstration: by itself without a terminal, and by its keys with one."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time

import pytest
from harness.process import die_with_parent, kill_and_reap
from harness.relay import binary
from harness.waiting import until

LEAVE = "\x1b[?25h\x1b[?1049l"  # shows the cursor and the screen from before


@pytest.fixture
def folder():
    """Where the demonstration puts its outbox; it must leave nothing there."""
    with tempfile.TemporaryDirectory() as name:
        yield name
        assert os.listdir(name) == []


def environment_for(folder, **more):
    return {**os.environ, "TMPDIR": folder, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **more}


def children_of(pid):
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True,
                           text=True, check=False)
    return [line for line in found.stdout.splitlines() if "outbox-relay" in line]


class Screen:
    """The demonstration on a terminal of its own; knows what the last frame showed."""

    def __init__(self, folder, columns=80, rows=24, **environment):
        self.primary, secondary = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(secondary)
        self.secondary = secondary
        self.process = subprocess.Popen(
            [binary(), "demo"], stdin=secondary, stdout=secondary, stderr=secondary,
            env=environment_for(folder, **environment), preexec_fn=die_with_parent)
        self.text = ""

    def resize(self, columns, rows):
        fcntl.ioctl(self.primary, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.primary], [], [], 0)[0]:
            self.text += os.read(self.primary, 65536).decode(errors="replace")
        return self.text

    def frame(self):
        """The last whole frame, as it looks."""
        frames = self.read().split("\x1b[H")
        raw = frames[-2] if len(frames) > 2 else ""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw)

    def shows(self, pattern, seconds=30):
        until(lambda: re.search(pattern, self.frame()), seconds,
              lambda: f"{pattern} on\n{self.frame()}\n{self.text[-300:]!r}", poll=0.05)

    def press(self, key):
        os.write(self.primary, key.encode())

    def end(self, seconds=30):
        """Waits for its end, reading on, since a full terminal would hold it up."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
            select.select([self.primary], [], [], 0.05)
        self.read()
        return self.process.poll()

    def is_restored(self):
        return termios.tcgetattr(self.secondary) == self.before and LEAVE in self.text

    def close(self):
        if self.process.poll() is None:
            self.press("q")
            self.end()
        kill_and_reap(self.process)
        os.close(self.primary)
        os.close(self.secondary)


@pytest.fixture
def screen(folder):
    screens = []

    def open_screen(**options):
        screens.append(Screen(folder, **options))
        return screens[-1]

    yield open_screen
    for one in screens:
        one.close()


def test_without_a_terminal_it_tells_its_story_and_keeps_what_it_promises(folder):
    done = subprocess.run([binary(), "demo"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=180, env=environment_for(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    for chapter in ["Running", "Breaking", "circuit is open", "Mending", "circuit is closed",
                    "Recovered", "Poison", "One dead letter", "redrives 1", "drains",
                    "Everything happened as promised"]:
        assert chapter in done.stdout, done.stdout
    written, delivered = re.search(r"very bytes: (\d+) of (\d+)", done.stdout).groups()
    assert written == delivered and int(written) > 100
    assert "FAILED" not in done.stdout and "\x1b" not in done.stdout


def test_its_keys_break_mend_poison_and_redrive(screen):
    shown = screen()
    shown.shows(r"CLOSED for")
    shown.shows(r"[1-9]\d* received")
    shown.press("b")
    shown.shows(r"refuses connections")
    shown.shows(r"OPEN for .*next probe in")
    shown.shows(r"[1-9]\d+ waiting")
    shown.press("b")
    shown.shows(r"CLOSED for")
    shown.shows(r"\b\d waiting")
    shown.press("p")
    shown.shows(r"dead letters 1")
    shown.shows(r"github\.\S+  permanent")
    shown.press("r")
    shown.shows(r"dead letters 0")
    shown.press("q")
    assert shown.end() == 0
    assert shown.is_restored()
    counts = re.search(r"(\d+)  events written\s+(\d+)  of them received", shown.text)
    assert counts and counts.group(1) == counts.group(2), shown.text[-600:]


def test_a_hanging_receiver_opens_the_circuit_too(screen):
    shown = screen()
    shown.shows(r"[1-9]\d* received")
    shown.press("h")
    shown.shows(r"never answers")
    shown.shows(r"OPEN for")
    shown.press("h")
    shown.shows(r"CLOSED for")
    shown.press("q")
    assert shown.end() == 0


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order_and_gives_the_terminal_back(screen, ending):
    shown = screen()
    shown.shows(r"[1-9]\d* received")
    shown.process.send_signal(ending)
    assert shown.end() == 0
    assert shown.is_restored()


def test_a_crash_gives_the_terminal_back_and_takes_the_relay_along(screen, folder):
    shown = screen()
    shown.shows(r"[1-9]\d* received")
    relay = int(children_of(shown.process.pid)[0].split()[0])
    shown.process.send_signal(signal.SIGABRT)
    assert shown.end() == -signal.SIGABRT
    assert shown.is_restored()
    until(lambda: not os.path.exists(f"/proc/{relay}"), 30, "the relay is gone")
    subprocess.run(["rm", "-rf", *[os.path.join(folder, name) for name in os.listdir(folder)]],
                   check=True)  # a crash can't clean up


def test_a_relay_that_dies_ends_the_demonstration_with_an_error(screen):
    shown = screen()
    shown.shows(r"[1-9]\d* received")
    os.kill(int(children_of(shown.process.pid)[0].split()[0]), signal.SIGKILL)
    assert shown.end() == 1
    assert shown.is_restored()
    assert "the relay ended" in shown.text


def test_no_color_is_obeyed_and_colours_are_used_without_it(screen):
    plain = screen(NO_COLOR="1")
    plain.shows(r"CLOSED for")
    assert "\x1b[0;3" not in plain.text
    coloured = screen()
    coloured.shows(r"CLOSED for")
    assert "\x1b[0;3" in coloured.text


def test_it_follows_the_size_of_its_window(screen):
    shown = screen(columns=80, rows=24)
    shown.shows(r"CLOSED for")
    shown.resize(120, 40)
    until(lambda: shown.frame().count("\n") == 39, 10, "40 rows")
    shown.resize(40, 10)
    until(lambda: shown.frame().count("\n") == 9, 10, "10 rows")
    assert max(len(line) for line in shown.frame().splitlines()) <= 40
