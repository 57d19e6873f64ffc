"""status fits its screen, wait ends when it should, init --check tells what is missing."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
import unicodedata

import pytest

from harness.process import die_with_parent, kill_and_reap
from harness.relay import binary, free_port, run_command
from harness.waiting import until

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, *arguments, columns=80, rows=24):
        self.primary, secondary = pty.openpty()
        fcntl.ioctl(self.primary, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(secondary)
        self.secondary = secondary
        self.process = subprocess.Popen(
            [binary(), *arguments], stdin=secondary, stdout=secondary, stderr=secondary,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
            preexec_fn=self.take_over)
        self.text = ""

    @staticmethod
    def take_over():
        """In the child: its terminal's keys send it signals."""
        die_with_parent()
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def read(self):
        while select.select([self.primary], [], [], 0)[0]:
            self.text += os.read(self.primary, 65536).decode(errors="replace")
        return self.text

    def frames(self):
        return self.read().split("\x1b[H")[1:]

    def press(self, keys):
        os.write(self.primary, keys.encode())

    def wait(self, seconds=10):
        until(lambda: (self.read(), self.process.poll() is not None)[1], seconds, "it ends")
        self.read()
        return self.process.returncode

    def close(self):
        kill_and_reap(self.process)
        os.close(self.primary)
        os.close(self.secondary)


@pytest.fixture
def terminal():
    opened = []

    def start(*arguments, **options):
        opened.append(Terminal(*arguments, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def width(line):
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def check_fits(text, columns, rows):
    lines = CONTROL.sub("", text).replace("\r", "").split("\n")
    assert len(lines) <= rows, lines
    for line in lines:
        assert width(line) <= columns, line
        assert not any(unicodedata.category(letter) == "Cc" for letter in line), repr(line)


def fill(outbox):
    """More of everything than a screen has room for, with names that are long and odd."""
    for number in range(30):
        odd = "asset." + "\u6f22\u5b57" * 30 + f".{number}"
        outbox.insert_many(2, event_type=odd, status="DeadLettered",
                           dead_letter_reason="permanent", last_error="x" * 900 + "\x1b[2J")
        outbox.insert_many(2, event_type=odd, status="Failed", retry_count=3,
                           next_attempt_on_utc="2099-01-01T00:00:00.000Z",
                           last_error="HTTP 503\r\n" + "y" * 900)
    outbox.insert_many(50)
    run_command("broker", "isolate", "--store", outbox.url, "--reason", "r" * 500)


def test_one_screen_fits_the_terminal_and_nothing_wraps(world, terminal):
    outbox = world.outbox()
    fill(outbox)
    relay = world.relay(outbox, "null:")
    for columns, rows in ((80, 24), (40, 10), (200, 60)):
        shown = terminal("status", "--config", relay.config_path, columns=columns, rows=rows)
        assert shown.wait() == 0
        assert "\x1b" not in shown.text, "one look needs no control codes"
        check_fits(shown.text, columns, rows)
    assert "isolated" in shown.text and "dead letters 60" in shown.text


def test_a_watched_screen_fits_is_drawn_again_and_ends_on_q(world, terminal):
    outbox = world.outbox()
    fill(outbox)
    relay = world.relay(outbox, "null:")
    shown = terminal("status", "--watch", "--config", relay.config_path)
    until(lambda: len(shown.frames()) >= 3, 15, "three frames")
    for frame in shown.frames()[:-1]:
        check_fits(frame, 80, 24)
        assert "Backlog" in frame and "q: quit" in frame
    shown.press("q")
    assert shown.wait() == 0
    assert shown.text.endswith("\x1b[?25h\x1b[?1049l"), "the old screen is given back"
    assert termios.tcgetattr(shown.secondary) == shown.before


def test_ctrl_c_ends_a_watched_screen_and_gives_the_terminal_back(world, terminal):
    shown = terminal("status", "--watch", "--store", world.outbox().url)
    until(lambda: shown.frames(), 10, "a frame")
    shown.press("\x03")
    assert shown.wait() == 0 and shown.text.endswith("\x1b[?1049l")
    assert termios.tcgetattr(shown.secondary) == shown.before


def test_piped_it_is_plain_text_also_when_watched(world):
    outbox = world.outbox()
    outbox.insert_many(3)
    done = run_command("status", "--store", outbox.url,
                       "--url", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 0 and "\x1b" not in done.stdout and "\r" not in done.stdout
    assert "pending 3" in done.stdout and "no relay answers" in done.stdout
    process = subprocess.Popen([binary(), "status", "--watch", "-o", "jsonl", "--store",
                                outbox.url], stdout=subprocess.PIPE, text=True,
                               preexec_fn=die_with_parent)
    try:
        for _ in range(2):
            assert json.loads(process.stdout.readline())["backlog"]["pending"] == 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        kill_and_reap(process)


def status(*arguments):
    done = run_command("status", "-o", "json", *arguments)
    return done.returncode, json.loads(done.stdout)


def test_live_state_comes_from_the_relay_and_the_rest_from_the_store(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 503})
    relay = world.relay(outbox, receiver)
    outbox.insert_many(20)
    until(lambda: relay.circuit() == "open", 10, "open")
    code, seen = status("--config", relay.config_path)
    assert code == 0 and seen["relay"]["answers"] and seen["relay"]["circuit"] == "open"
    assert seen["relay"]["nextProbeSeconds"] is not None and seen["relay"]["ready"]
    assert seen["relays"][0]["life"] == "alive" and seen["relays"][0]["process"] == relay.pid
    assert any("503" in error["error"] for error in seen["errors"])
    text = run_command("status", "--config", relay.config_path).stdout
    assert "next probe in" in text and "503" in text
    error = seen["errors"][0]
    assert error["count"] >= 1 and error["id"] in text
    assert run_command("messages", "show", error["id"], "--store", outbox.url).returncode == 0
    os.rename(outbox.path, outbox.path + ".away")
    until(lambda: status("--config", relay.config_path)[1]["relay"]["state"] == "store_unusable",
          10, "the relay has noticed")
    done = run_command("status", "--config", relay.config_path)
    assert done.returncode == 1, done
    os.rename(outbox.path + ".away", outbox.path)
    until(lambda: status("--config", relay.config_path)[0] == 0, 10, "usable again")
    receiver.rules()
    until(outbox.all_processed, 20, "delivered")
    code, seen = status("--config", relay.config_path)
    assert seen["relay"]["circuit"] == "closed" and seen["relay"]["publishedPerSecond"] > 0
    assert seen["backlog"]["pending"] == 0 and seen["backlog"]["oldestAgeSeconds"] is None
    elsewhere = status("--store", outbox.url, "--url", f"http://127.0.0.1:{relay.port}")[1]
    assert elsewhere["relay"]["answers"]
    relay.signal(signal.SIGKILL)
    relay.process.wait()
    code, seen = status("--config", relay.config_path)
    assert code == 0 and not seen["relay"]["answers"] and seen["relays"][0]["life"] == "dead"


def test_with_neither_store_nor_relay_there_is_nothing_to_show(world):
    code, seen = status("--store", f"sqlite://{world.folder}/absent.db",
                        "--url", f"http://127.0.0.1:{free_port()}")
    assert code == 3 and "absent.db" in seen["backlog"]["error"]
    assert not os.path.exists(os.path.join(world.folder, "absent.db"))


def wait_for(condition, outbox, *arguments, timeout="0s"):
    return run_command("wait", "--for", condition, "--timeout", timeout, "--store", outbox.url,
                       *arguments)


def test_wait_looks_once_with_no_time_and_says_what_it_saw(world):
    outbox = world.outbox()
    assert wait_for("drained", outbox).returncode == 0
    outbox.insert_many(2)
    done = wait_for("drained", outbox)
    assert done.returncode == 1 and "2 events" in done.stderr
    assert wait_for("empty-dead-letters", outbox).returncode == 0
    outbox.insert(status="DeadLettered")
    assert wait_for("empty-dead-letters", outbox).returncode == 1
    nobody = f"http://127.0.0.1:{free_port()}"
    assert wait_for("ready", outbox, "--url", nobody).returncode == 3
    assert run_command("wait", "--for", "nothing", "--store", outbox.url).returncode == 2
    assert wait_for("ready", outbox, timeout="soon").returncode == 2
    done = run_command("wait", "--for", "drained", "--timeout", "0s")
    assert done.returncode == 78 and "--store" in done.stderr


def test_wait_for_the_table_ends_when_the_application_has_made_it(world):
    outbox = world.outbox(create=False)
    assert wait_for("table", outbox).returncode == 3
    waiting = subprocess.Popen([binary(), "wait", "--for", "table", "--timeout", "30s",
                                "--store", outbox.url], preexec_fn=die_with_parent)
    try:
        outbox.make("CREATE TABLE other (x)")
        assert wait_for("table", outbox).returncode == 1
        assert waiting.poll() is None
        assert run_command("init", "--apply", "--store", outbox.url).returncode == 0
        assert waiting.wait(10) == 0
    finally:
        kill_and_reap(waiting)


def test_wait_for_ready_and_drained_ends_when_a_relay_has_done_it(world):
    outbox = world.outbox()
    outbox.insert_many(500)
    relay = world.relay(outbox, "null:", start=False)
    ends = {}

    def wait(condition):
        done = run_command("wait", "--for", condition, "--timeout", "20s",
                           "--config", relay.config_path)
        ends[condition] = done.returncode, outbox.unfinished()

    threads = [threading.Thread(target=wait, args=(name,)) for name in ("ready", "drained")]
    for thread in threads:
        thread.start()
    relay.start()
    for thread in threads:
        thread.join()
    assert ends["ready"][0] == 0 and ends["drained"] == (0, 0)


def test_wait_ends_at_its_time_out(world):
    outbox = world.outbox()
    outbox.insert()
    start = time.monotonic()
    assert wait_for("drained", outbox, timeout="700ms").returncode == 1
    assert 0.7 <= time.monotonic() - start < 5


def test_a_signal_ends_the_wait(world):
    outbox = world.outbox()
    outbox.insert()
    waiting = subprocess.Popen([binary(), "wait", "--for", "drained", "--store", outbox.url],
                               stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    try:
        until(lambda: catches(waiting.pid, signal.SIGTERM), 10, "it handles the signal")
        waiting.send_signal(signal.SIGTERM)
        _, told = waiting.communicate(timeout=10)
        assert waiting.returncode == 1 and "signal" in told and "1 event is" in told
    finally:
        kill_and_reap(waiting)


def catches(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


def check(outbox):
    return run_command("init", "--check", "--store", outbox.url)


def test_init_check_is_content_with_what_init_made(world):
    outbox = world.outbox()
    done = check(outbox)
    assert done.returncode == 0 and done.stdout == "", done


def test_init_check_prints_the_statements_that_are_missing_and_they_mend_it(world):
    outbox = world.outbox()
    outbox.query("DROP INDEX outbox_messages_failed")
    outbox.query("ALTER TABLE outbox_messages DROP COLUMN traceparent")
    outbox.query("DROP TABLE outbox_relay_audit")
    outbox.query("DROP TABLE outbox_relay_meta")
    outbox.query("PRAGMA journal_mode=DELETE")
    done = check(outbox)
    assert done.returncode == 5
    for name in ("outbox_messages_failed", "traceparent", "outbox_relay_audit", "schema_major"):
        assert name in done.stdout
    assert "outbox_messages_pending" not in done.stdout, "that one is there"
    with outbox.connection() as database:
        database.executescript(done.stdout)
    assert check(outbox).returncode == 0


def test_init_check_of_an_empty_database_prints_what_init_prints(world):
    outbox = world.outbox(create=False)
    assert check(outbox).returncode == 3 and not os.path.exists(outbox.path)
    outbox.query("VACUUM")
    done = check(outbox)
    assert done.returncode == 5
    with outbox.connection() as database:
        database.executescript(done.stdout)
    assert check(outbox).returncode == 0
    assert run_command("init", "--check", "--apply", "--store", outbox.url).returncode == 2


@pytest.mark.parametrize("preset, ddl, row", [
    ("dotnet", "CREATE TABLE t (Id TEXT PRIMARY KEY, Type TEXT, Content TEXT, OccurredOnUtc TEXT,"
               " ProcessedOnUtc TEXT)",
     "INSERT INTO t VALUES ('1', 'order', '{}', datetime('now'), NULL)"),
    ("debezium", "CREATE TABLE t (id TEXT PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT,"
                 " type TEXT, payload TEXT, timestamp TEXT)",
     "INSERT INTO t VALUES ('1', 'orders', 'k', 'order', '{}', datetime('now'))")])
def test_of_a_foreign_table_the_side_tables_tell_what_it_has_no_columns_for(world, preset, ddl,
                                                                            row):
    outbox, receiver = world.outbox(create=False), world.receiver()
    outbox.make(ddl)
    flags = ["--preset", preset, "--table", "t"]
    before = run_command("init", "--check", "--store", outbox.url, *flags)
    assert before.returncode == 5 and "outbox_relay_leases" in before.stdout
    assert "outbox_messages" not in before.stdout, "that table is none of ours"
    receiver.rules({"status": 503})
    relay = world.relay(outbox, receiver, {"store": {"preset": preset, "table": "t"}})
    outbox.query(row)
    until(lambda: receiver.requests(), 10, "tried")
    until(lambda: status("--config", relay.config_path)[1]["errors"], 10, "told")
    error, = status("--config", relay.config_path)[1]["errors"]
    assert "503" in error["error"] and error["eventType"] == "order" and not error["dead"]
    assert run_command("init", "--check", "--store", outbox.url, *flags).returncode == 0


def test_tables_of_a_newer_program_are_a_conflict_and_said_so(world):
    outbox = world.outbox()
    outbox.query("UPDATE outbox_relay_meta SET value = 2 WHERE name = 'schema_major'")
    for words in (["init", "--check"], ["init", "--apply"], ["messages", "find"],
                  ["messages", "show", "x"], ["dead-letters", "list"], ["pause"],
                  ["broker", "isolate"], ["status", "--url", "http://127.0.0.1:1"]):
        done = run_command(*words, "--store", outbox.url)
        assert done.returncode == 5, (words, done.stdout, done.stderr)
        assert "version 2" in done.stdout + done.stderr, words


def test_status_says_once_what_an_operator_ordered_and_what_is_not_there(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    done = run_command("broker", "isolate", "--store", outbox.url, "--reason", 'the "mnt"')
    assert done.returncode == 0, done.stderr

    def circuit():
        shown = run_command("status", "--store", outbox.url,
                            "--url", f"http://127.0.0.1:{relay.port}")
        return next(line for line in shown.stdout.splitlines() if line.startswith("Circuit"))

    until(lambda: circuit().split() == ["Circuit", *'isolated by an operator: the "mnt"'.split()],
          10, "the relay has heard of it")
    away = world.outbox("none.db", create=False)
    shown = run_command("status", "--store", away.url, "--url", "http://127.0.0.1:1").stdout
    assert shown.count("there is no database") == 1 and "waiting" not in shown


def test_wait_counts_one_as_one(world):
    outbox = world.outbox()
    outbox.insert()
    outbox.insert(status="DeadLettered", dead_letter_reason="permanent")
    for condition, words in (("drained", "1 event is not"),
                             ("empty-dead-letters", "1 dead letter\n")):
        done = wait_for(condition, outbox)
        assert done.returncode == 1 and words in done.stderr, done.stderr
