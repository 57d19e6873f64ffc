#!/usr/bin/python3
"""A RabbitMQ server of its own, from the distribution's package, on free ports and in memory.

It also listens for TLS, with a certificate for localhost and 127.0.0.1, to clients that have one of the same
authority.

As a script: prints the server's URL, its URL for TLS and the folder with ca.pem, client.pem and
client.key, then runs each line of its input as arguments of rabbitmqctl
and answers with a line ("ok", or what went wrong), until its input ends.
"""

import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

from folders import server_folder
from ports import free_port

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
CTL = "/usr/lib/rabbitmq/bin/rabbitmqctl"
START_LIMIT = 180  # seconds
CTL_LIMIT = 240
WRITE_LIMIT = 30


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


def make_certificates(folder):
    """An authority, and a certificate of it for the server and for a client."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=ca", "-keyout", f"{folder}/ca.key",
            "-out", f"{folder}/ca.pem")
    for name, alternative in (("server", "DNS:localhost,IP:127.0.0.1"), ("client", "DNS:relay")):
        with open(f"{folder}/{name}.ext", "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={alternative}\n")
        openssl("req", *key, "-subj", f"/CN={name}", "-keyout", f"{folder}/{name}.key", "-out",
                f"{folder}/{name}.csr")
        openssl("x509", "-req", "-days", "2", "-in", f"{folder}/{name}.csr", "-CA",
                f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key", "-CAcreateserial", "-extfile",
                f"{folder}/{name}.ext", "-out", f"{folder}/{name}.pem")


def undecided(log):
    """What a crash would take back: changes in a log of Mnesia, where RabbitMQ keeps queues and the
    like. When it starts, one without a word that it was committed counts as aborted."""
    found = []
    for record in log.split(b"bWLA")[1:]:
        before, presumed_abort, _ = record.partition(b"d\0\x0dpresume_abort")
        transaction = before[before.rfind(b"d\0\x03tid"):]
        if presumed_abort and transaction + b"d\0\x09committed" not in log:
            found.append(transaction)
    return found


class RabbitMq:
    def __init__(self):
        self.folder = server_folder("rabbitmq")
        self.port = free_port()
        self.process = None
        self.epmd = None
        self.name = f"outbox{os.getpid()}-{self.port}"
        self.node = self.name + "@localhost"
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.folder, "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": self.node, "RABBITMQ_MNESIA_BASE": self.folder + "/data",
            "RABBITMQ_LOG_BASE": self.folder + "/log", "RABBITMQ_CONFIG_FILE":
            self.folder + "/rabbitmq", "RABBITMQ_ENABLED_PLUGINS_FILE": self.folder + "/plugins",
            "RABBITMQ_PID_FILE": self.folder + "/pid", "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(free_port()), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null"}
        self.tls_port = free_port()
        make_certificates(self.folder)
        self._write("rabbitmq.conf", f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
                    f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}\n"
                    f"ssl_options.cacertfile = {self.folder}/ca.pem\n"
                    f"ssl_options.certfile = {self.folder}/server.pem\n"
                    f"ssl_options.keyfile = {self.folder}/server.key\n"
                    "ssl_options.verify = verify_peer\n"
                    "ssl_options.fail_if_no_peer_cert = true\n"
                    "loopback_users = none\nlog.console = false\n")
        self._write("plugins", "[].\n")

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    @property
    def url(self):
        return f"amqp://127.0.0.1:{self.port}"

    def start(self):
        if self.epmd is None:
            # Erlang would leave one of its own behind.
            self.epmd = subprocess.Popen(["epmd"], env=self.environment, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process = subprocess.Popen([SERVER], env=self.environment, cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        until = time.monotonic() + START_LIMIT
        while not self._speaks():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("RabbitMQ did not start:\n" + self.log())
            time.sleep(0.05)

    def _speaks(self):
        """Whether it greets a client, by its name: the port is open some time before that. When it
        does, its queues are back."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                client.settimeout(5)
                client.sendall(b"AMQP\x00\x00\x09\x01")
                return self.name.encode() in client.recv(4096)
        except OSError:
            return False

    def ctl(self, *words):
        return subprocess.run([CTL, *words], env=self.environment, text=True, capture_output=True,
                              timeout=CTL_LIMIT, check=False)

    def kill(self):
        """As a crash would, once what it has confirmed will outlive that.

        RabbitMQ answers a declaration when it is written down. In some cases of a hundred the word
        that it was committed follows up to two seconds later; a crash before that takes back what
        was confirmed, which is nothing that a relay could mend.
        """
        until = time.monotonic() + WRITE_LIMIT
        while undecided(self.metadata_log()):
            if time.monotonic() > until:
                raise RuntimeError("RabbitMQ does not write down what it has confirmed")
            time.sleep(0.02)
        self._end()

    def metadata_log(self):
        """What Mnesia has not moved to its tables yet. It renames the later log to the earlier."""
        text = b""
        for name in ("LATEST.LOG", "PREVIOUS.LOG"):
            with contextlib.suppress(FileNotFoundError):
                text += pathlib.Path(self.folder, "data", self.node, name).read_bytes()
        return text

    def _end(self):
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self):
        self._end()
        if self.epmd is not None:
            self.epmd.kill()
            self.epmd.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self):
        files = sorted(pathlib.Path(self.folder, "log").glob("*.log"))
        return "\n".join(file.read_text(errors="replace")[-4000:] for file in files)


def main():
    if not os.path.exists(SERVER):
        print("missing: the package rabbitmq-server", flush=True)
        return 3
    server = RabbitMq()
    try:
        server.start()
        print(server.url, f"amqps://localhost:{server.tls_port}", server.folder, flush=True)
        for line in sys.stdin:
            done = server.ctl(*shlex.split(line))
            print("ok" if done.returncode == 0 else repr(done.stderr or done.stdout), flush=True)
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
