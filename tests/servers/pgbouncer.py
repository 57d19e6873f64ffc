"""A PgBouncer of its own before a PostgreSQL server: sessions are lent out for a transaction each."""

import getpass
import os
import shutil
import socket
import subprocess
import time

from folders import server_folder
from ports import free_port

POOLER = "/usr/sbin/pgbouncer"


class PgBouncer:
    def __init__(self, server, pool=2):
        self.folder = server_folder("pgbouncer")
        self.port = free_port()
        self.process = None
        self._write("users.txt", '"postgres" ""\n')
        self._write("pgbouncer.ini", f"""[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self.folder}/users.txt
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 200
logfile = {self.folder}/log
""")
        # It refuses to be root.
        self.user = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        if self.user:
            shutil.chown(self.folder, "postgres", "postgres")

    def _write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o644)

    def start(self):
        self.process = subprocess.Popen([*self.user, POOLER, self.folder + "/pgbouncer.ini"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("PgBouncer did not start: " + self.log()) from None
                time.sleep(0.02)

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self):
        try:
            with open(self.folder + "/log", encoding="utf-8") as file:
                return file.read()[-2000:]
        except OSError:
            return "no log"
