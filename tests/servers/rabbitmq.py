#!/usr/bin/python3
"""A RabbitMQ server of its own, from the distribution's package, on free ports and in memory.

It also listens for TLS, with a certificate for localhost and 127.0.0.1, to clients that have one of the same
authority.

As a script: prints the server's URL, its URL for TLS and the folder with ca.pem, client.pem and
client.key, then runs each line of its input as arguments of rabbitmqctl
and answers with a line ("ok", or what went wrong), until its input ends.
"""

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

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
CTL = "/usr/lib/rabbitmq/bin/rabbitmqctl"
START_LIMIT = 180  # seconds
CTL_LIMIT = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


class RabbitMq:
    def __init__(self):
        self.folder = server_folder("rabbitmq")
        self.port = free_port()
        self.process = None
        self.epmd = None
        node = f"outbox{os.getpid()}-{self.port}@localhost"
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.folder, "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": node, "RABBITMQ_MNESIA_BASE": self.folder + "/data",
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
        """Whether it greets a client: the port is open some time before that."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                client.settimeout(5)
                client.sendall(b"AMQP\x00\x00\x09\x01")
                return client.recv(1) == b"\x01"
        except OSError:
            return False

    def ctl(self, *words):
        return subprocess.run([CTL, *words], env=self.environment, text=True, capture_output=True,
                              timeout=CTL_LIMIT, check=False)

    def kill(self):
        """As a crash would."""
        if self.process is None:
            return
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self):
        self.kill()
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
