#!/usr/bin/python3
"""A PostgreSQL server of its own, from the distribution's package, on a free port and in memory.

As a script: prints the server's URL, then takes orders as lines of its input ("stop", "kill",
"start"; everything else is a statement that it runs) and answers each with a line ("ok", or what
went wrong), until its input ends.
"""

import getpass
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from folders import server_folder
from ports import free_port

START_LIMIT = 60  # seconds
# The newest that is installed.
PROGRAMS = (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or ["/usr/lib/postgresql/15/bin"])[-1]
SERVER = PROGRAMS + "/postgres"
SETTINGS = {"listen_addresses": "127.0.0.1", "shared_buffers": "32MB", "max_connections": "100",
            "autovacuum": "off", "log_min_messages": "warning",
            # A server that is killed leaves nothing outside its folder.
            "dynamic_shared_memory_type": "mmap"}


class PostgreSql:
    """fsync is off unless it is asked for: nothing here cuts the power."""

    def __init__(self, **settings):
        self.folder = server_folder("postgres")
        self.data = self.folder + "/data"
        self.port = free_port()
        self.settings = {**SETTINGS, "fsync": "off", **settings}
        self.process = None
        # The server refuses to be root.
        self.user = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        if self.user:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run(PROGRAMS + "/initdb", "-D", self.data, "-A", "trust", "-U", "postgres",
                  "--no-locale", "-E", "UTF8", "--no-sync")

    def _run(self, *command):
        done = subprocess.run([*self.user, *command], cwd=self.folder, text=True,
                              capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr or done.stdout)
        return done.stdout

    def url(self, database="postgres", user="postgres"):
        return f"postgres://{user}@127.0.0.1:{self.port}/{database}"

    def start(self):
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder + "/log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.user, SERVER, "-D", self.data, "-p", str(self.port), "-k", self.folder,
                 *options], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        until = time.monotonic() + START_LIMIT
        while self._ready() != 0:
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("PostgreSQL did not start:\n" + self.log())
            time.sleep(0.02)

    def _ready(self):
        return subprocess.run([PROGRAMS + "/pg_isready", "-q", "-h", "127.0.0.1", "-p",
                               str(self.port)], check=False, timeout=30).returncode

    def _pid(self):
        return int(pathlib.Path(self.data, "postmaster.pid").read_text().split()[0])

    def _end(self, number):
        """Ends the postmaster and waits for all of its processes."""
        if self.process is None:
            return
        if number == signal.SIGKILL:
            # As when the machine's memory is gone: postmaster and sessions at once.
            for child in self._children():
                self._signal(child, number)
        self._signal(self._pid(), number)
        self.process.wait(timeout=60)
        self.process = None
        pathlib.Path(self.data, "postmaster.pid").unlink(missing_ok=True)

    def _children(self):
        done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self._pid())], text=True,
                              capture_output=True, check=False)
        return [int(word) for word in done.stdout.split()]

    @staticmethod
    def _signal(process, number):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass

    def kill(self):
        """As a crash would."""
        self._end(signal.SIGKILL)

    def halt(self):
        """Ends all sessions, and then itself."""
        self._end(signal.SIGINT)

    def stop(self):
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def psql(self, sql, database="postgres", user="postgres", check=True):
        """Runs statements; their results as a text, a row a line, columns divided by |."""
        done = subprocess.run(
            ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d",
             self.url(database, user)], input=sql, text=True, capture_output=True, timeout=120,
            check=False)
        if check and done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout.strip() if check else done

    def create(self, database, encoding="UTF8"):
        self.psql(f"CREATE DATABASE \"{database}\" TEMPLATE template0 ENCODING '{encoding}'")
        return self.url(database)

    def log(self):
        return pathlib.Path(self.folder, "log").read_text(errors="replace")[-4000:]


def answer(server, line):
    orders = {"stop": server.halt, "kill": server.kill, "start": server.start}
    try:
        orders.get(line, lambda: server.psql(line))()
        return "ok"
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return repr(str(error))


def main():
    if not os.path.exists(SERVER):
        print("missing: the package postgresql", flush=True)
        return 3
    server = PostgreSql()
    try:
        server.start()
        print(server.url(), flush=True)
        for line in sys.stdin:
            print(answer(server, line.strip()), flush=True)
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
