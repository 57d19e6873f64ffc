"""The documentation is true: its examples run, its links lead somewhere, its lists are complete.

How a fenced block says what it is:
  sh test              is run, and must succeed
  sh test until WORD   is run again until it prints WORD
  sh serve             is started, and stopped at the end of the page
  sh make              names targets of the Makefile
  text output          lines that what was started or run before prints (... stands for anything)
  sql test FILE        is run by the sqlite3 shell on that database, by psql where it is a URL
  yaml FILE            is written to that file, and must be valid
  python FILE          is written to that file
A page that needs something to look at names it in a comment: <!-- scene: dead letter -->
"""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from harness.relay import binary, free_port
from harness.waiting import until

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "servers"))

import postgresql  # noqa: E402

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
ALL_PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(.*)$")
EXAMPLES = {"sh", "sql", "yaml", "python", "json", "bash"}
# Places that every page may name, and where they are in a test. Ports are free ones.
DATABASE = "/data/app.db"
PORTS = ["9711", "8080"]
SERVER = "@db/"  # of PostgreSQL


class Block:
    def __init__(self, page, line, info, text):
        words = info.split()
        self.page, self.line, self.text = page, line, text
        self.language, self.words = (words[0] if words else ""), words[1:]

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    blocks, info, began, lines = [], None, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if not fence:
            lines.append(line)
        elif info is None:
            info, began, lines = fence.group(1), number, []
        else:
            assert not fence.group(1), f"{page}:{number}: a block begins inside another"
            blocks.append(Block(page, began, info, "\n".join(lines) + "\n"))
            info = None
    assert info is None, f"{page}: the last block has no end"
    return blocks


class Reader:
    """Does what a page says, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.served = []
        self.output = ""
        self.postgresql = None
        (folder / "bin").mkdir()
        (folder / "bin" / "outbox-relay").symlink_to(binary())
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("OUTBOX_RELAY")}
        self.environment = {**kept, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                            "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        self.ports = {port: str(free_port()) for port in PORTS}

    def placed(self, text):
        text = text.replace(DATABASE, str(self.folder / "app.db"))
        if self.postgresql:
            text = text.replace(SERVER, f"@127.0.0.1:{self.postgresql.port}/")
        return re.sub(r":(\d{4})\b|\b(\d{4})\)", self.place_port, text)

    def place_port(self, match):
        port = match.group(1) or match.group(2)
        return match.group(0).replace(port, self.ports.get(port, port))

    def run(self, command, text=None):
        return subprocess.run(command, cwd=self.folder, env=self.environment, input=text,
                              capture_output=True, text=True, timeout=60)

    def shell(self, text):
        return self.run(["bash", "-euo", "pipefail", "-c", self.placed(text)])

    def printed(self):
        return self.output + "".join(log.read_text(errors="replace") for _, log in self.served)

    def do(self, block):
        kind = " ".join([block.language, *block.words[:1]])
        if kind == "sh test":
            self.do_shell(block)
        elif kind == "sh serve":
            self.do_serve(block)
        elif kind == "sh make":
            self.do_make(block)
        elif kind == "text output":
            self.do_output(block)
        elif kind == "sql test":
            self.do_sql(block)
        elif block.language == "yaml" and block.words:
            self.do_yaml(block)
        elif block.language == "python" and block.words:
            (self.folder / block.words[0]).write_text(self.placed(block.text))
        else:
            assert block.language not in EXAMPLES, f"{block}: an example that nobody runs"

    def do_shell(self, block):
        if block.words[1:2] == ["until"]:
            wanted = block.words[2]
            until(lambda: wanted in self.shell(block.text).stdout, 15,
                  lambda: f"{block}: {wanted} in\n{self.shell(block.text)}\n{self.printed()}",
                  poll=0.1)
        done = self.shell(block.text)
        assert done.returncode == 0, f"{block}: {done}\n{self.printed()}"
        self.output += done.stdout

    def do_serve(self, block):
        log = self.folder / f"served-{len(self.served)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", "exec " + self.placed(block.text).strip()], cwd=self.folder,
                env=self.environment, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True)
        self.served.append((process, log))

    def do_make(self, block):
        makefile = (ROOT / "Makefile").read_text()
        for target in re.findall(r"^make (\S+)", block.text, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{block}: make {target}"

    def do_output(self, block):
        pattern = ".*".join(
            ".*".join(re.escape(part) for part in line.split("..."))
            for line in self.placed(block.text).splitlines())
        until(lambda: re.search(pattern, self.printed(), re.DOTALL), 15,
              lambda: f"{block} in\n{self.printed()}", poll=0.05)

    def do_sql(self, block):
        shell = ["sqlite3", "-bail", "-cmd", ".timeout 5000"]
        if block.words[1].startswith("postgres:"):
            shell = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        done = self.run([*shell, self.placed(block.words[1])], block.text)
        assert done.returncode == 0 and not done.stderr, f"{block}: {done}"
        self.output += done.stdout

    def do_yaml(self, block):
        path = self.folder / block.words[0]
        path.write_text(self.placed(block.text))
        done = self.run(["outbox-relay", "validate", "--config", str(path)])
        assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"

    def close(self):
        """Stops what the page started, the newest first; a relay must end well."""
        endings = []
        for process, log in reversed(self.served):
            early = process.poll()
            if early is None:
                os.killpg(process.pid, signal.SIGTERM)
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = f"killed, {process.wait()}"
            endings.append((process.args[-1], early, code, log.read_text(errors="replace")))
        self.served.clear()
        if self.postgresql:
            self.postgresql.stop()
        for command, early, code, log in endings:
            assert early is None, f"{command} ended by itself with {early}:\n{log}"
            if "outbox-relay" in command:
                assert code == 0, f"{command} ended with {code}:\n{log}"


DEAD_LETTER_SCENE = """
outbox-relay init --apply --store sqlite:app.db
sqlite3 app.db "INSERT INTO outbox_messages (id, event_type, payload, headers)
  VALUES ('scene-1', 'order.placed', '{}', 'no JSON'), ('scene-2', 'order.placed', '{}', NULL)"
"""


def set_scene(reader, page):
    """What a page takes for granted."""
    scene = re.search(r"<!-- scene: (.*?) -->", page.read_text(encoding="utf-8"))
    if not scene:
        return
    if scene.group(1) == "postgresql":
        reader.postgresql = postgresql.PostgreSql()
        reader.postgresql.start()
        reader.postgresql.psql("CREATE ROLE shop LOGIN; CREATE ROLE relay LOGIN;"
                               "CREATE DATABASE shop OWNER shop")
        return
    assert scene.group(1) == "dead letter", f"{page}: unknown scene {scene.group(1)}"
    done = reader.shell(DEAD_LETTER_SCENE)
    assert done.returncode == 0, done
    reader.do_serve(Block(page, 0, "sh serve", "outbox-relay run --store sqlite:app.db "
                          "--broker null: --set http.listen=127.0.0.1:9711\n"))
    until(lambda: "DeadLettered|1\nProcessed|1" in reader.run(
        ["sqlite3", "-cmd", ".timeout 5000", "app.db", "SELECT status, count(*) FROM "
         "outbox_messages GROUP BY status ORDER BY status"]).stdout, 15, "the scene is set")


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_example_of_the_page_works(page, tmp_path):
    reader = Reader(tmp_path)
    try:
        set_scene(reader, page)
        for block in blocks_of(page):
            reader.do(block)
    finally:
        reader.close()


def anchors_of(page):
    """The anchors that a forge gives to headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_every_link_of_the_page_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors_of(path), f"{name_of(page)}: {target}"


def test_every_page_can_be_reached_from_the_readme():
    seen, rest = set(), [ROOT / "README.md"]
    while rest:
        page = rest.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#:\s]+)", page.read_text(encoding="utf-8"))
        rest += [(page.parent / link).resolve() for link in links]
    assert set(ALL_PAGES) - seen == set()


def test_the_metrics_page_lists_exactly_what_is_served_in_the_same_words(world):
    relay = world.relay(world.outbox(), "null:")
    served = dict(re.findall(r"^# HELP (\S+) (.*)$", relay.get("/metrics")[1], re.MULTILINE))
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z_]+)` \|[^|]*\| (.*?)(?: See \[.*)? \|$", page, re.MULTILINE))
    assert listed == served


def test_every_command_that_the_readme_names_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    line = re.search(r"Commands: (.*?)\.\n", readme, re.DOTALL).group(1)
    names = [name.split()[0] for name in re.findall(r"`([^`]+)`", line)]
    assert len(names) >= 7
    for name in names:
        done = subprocess.run([binary(), name, "--help"], capture_output=True, text=True,
                              timeout=10, check=False)
        assert done.returncode == 0 and name in done.stdout, f"{name}: {done}"
