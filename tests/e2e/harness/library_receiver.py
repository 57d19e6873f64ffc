"""Helpers that are made of npm packages: a receiver of `cloudevents` and `standardwebhooks`.

They are installed beside the program under test, at the versions of tests/e2e/receivers, once for
each state of the lock file; nothing of them is kept in the tree.
"""

import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from .process import Helper, LineLog
from .relay import binary
from .waiting import until

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "receivers"
# What npm says when the registry can't be reached. Anything else that goes wrong is a failure.
NO_NETWORK = ["ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH",
              "EHOSTUNREACH", "ENOTCACHED", "ERR_SOCKET_TIMEOUT", "network"]


@functools.lru_cache(maxsize=None)
def installed():
    """The folder with the packages, and why there is none: one of the two."""
    for program in ["node", "npm"]:
        if not shutil.which(program):
            return None, f"{program} is missing (Debian: apt-get install nodejs npm)"
    lock = (SOURCES / "package-lock.json").read_bytes()
    name = "receivers-" + hashlib.sha256(lock).hexdigest()[:12]
    beside = pathlib.Path(binary()).parent
    place = (beside if os.access(beside, os.W_OK) else pathlib.Path(tempfile.gettempdir())) / name
    return place, "" if place.is_dir() else install(place)


def install(place):
    """In a folder of its own first, so that what is there is always whole. Returns why not."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        for file in ["package.json", "package-lock.json"]:
            shutil.copy(SOURCES / file, folder)
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline",
             "--fetch-retries=1", "--fetch-timeout=30000"],
            cwd=folder, capture_output=True, text=True, timeout=300)
        said = done.stdout + done.stderr
        blamed = [line for line in said.splitlines() if any(word in line for word in NO_NETWORK)]
        if done.returncode != 0 and blamed:
            return f"the npm registry can't be reached: {blamed[0]}"
        assert done.returncode == 0, said
        try:
            os.rename(folder, place)
        except OSError:
            assert place.is_dir()  # another run was quicker
        os.makedirs(folder, exist_ok=True)  # for its end
    return ""


class LibraryHelper(Helper):
    """A helper in JavaScript that uses the packages; without them its test is skipped."""

    def __init__(self, **arguments):
        self._place, missing = installed()
        if missing:
            pytest.skip(missing)
        super().__init__(**arguments)

    def command(self, arguments):
        # It looks for the packages where they are, not where it is.
        return ["env", f"NODE_PATH={self._place / 'node_modules'}", "node",
                str(SOURCES / self.script), json.dumps(arguments)]


class LibraryReceiver(LibraryHelper):
    """Accepts everything and says what the libraries understood."""

    script = "receiver.js"

    def __init__(self, folder, secrets=None):
        path = os.path.join(folder, "understood.jsonl")
        open(path, "wb").close()
        super().__init__(log=path, secrets=secrets or {})
        self.port = self.hello["port"]
        self.url = f"http://127.0.0.1:{self.port}/inbox"
        self._log = LineLog(path)

    def understood(self, ids, seconds=20):
        """By id, what was made of these; each has to come once."""
        def missing():
            return set(ids) - {entry["id"] for entry in self._log.entries()}

        until(lambda: not missing(), seconds, lambda: f"{len(missing())} events to come", poll=0.05)
        wanted = set(ids)
        entries = [entry for entry in self._log.entries() if entry["id"] in wanted]
        assert len(entries) == len(wanted)
        return {entry["id"]: entry for entry in entries}
