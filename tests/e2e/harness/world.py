"""Everything one test starts, in one temporary folder, ended with the test."""

import os
import shutil
import tempfile

from .library_receiver import LibraryReceiver
from .outbox import Outbox
from .proxy import TcpProxy
from .receiver import Receiver
from .relay import Relay
from .waiting import until
from .writer import Writer

# Short times, so that a test of minutes takes seconds. The lease term is at least three times the
# publish time-out, as the configuration demands.
QUICK = {
    "brokers": {"main": {"publishTimeout": "1s"}},
    "relay": {"leaseTerm": "10s", "pollInterval": "200ms"},
    "breaker": {"breakDuration": "2s"},
    "metrics": {"sampleInterval": "1s"},
}


def base_folder():
    """In memory where possible: a shared disk would decide how long the tests take."""
    chosen = os.environ.get("OUTBOX_E2E_FOLDER")
    if chosen:
        return chosen
    shm = "/dev/shm"
    if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 2 << 30:
        return shm
    return None


class World:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="outbox-e2e-", dir=base_folder())
        os.chmod(self.folder, 0o755)
        self.relays = []
        self._open = []
        self._undo = []

    def outbox(self, name="app.db", folder=None, create=True):
        return Outbox(folder or self.folder, name, create)

    def receiver(self, certificate="", key="", client_ca=""):
        return self.keep(Receiver(self.folder, certificate, key, client_ca))

    def library_receiver(self, secrets=None):
        return self.keep(LibraryReceiver(self.folder, secrets))

    def proxy(self, receiver, name="proxy"):
        return self.keep(TcpProxy(self.folder, receiver.port, name))

    def tcp_proxy(self, port, name):
        """Before whatever it is that listens there."""
        return self.keep(TcpProxy(self.folder, port, name, opaque=True))

    def database_proxy(self, server, name="database-proxy"):
        return self.tcp_proxy(server.port, name)

    def writer(self, outbox, **options):
        return self.keep(Writer(self.folder, outbox.path, **options))

    def relay(self, outbox, broker, settings=None, name="relay", start=True, quick=True, user=None):
        """A relay from `outbox` to `broker` (a receiver, a proxy, or a URL)."""
        from .relay import merged

        broker_url = broker if isinstance(broker, str) else broker.url
        chosen = merged(QUICK if quick else {}, settings or {})
        relay = Relay(self.folder, outbox.url, broker_url, chosen, name, user)
        self.relays.append(relay)
        if start:
            relay.start()
        return relay

    def keep(self, helper):
        self._open.append(helper)
        return helper

    def finally_do(self, action):
        self._undo.append(action)

    def close(self):
        for relay in self.relays:
            relay.close()
        for helper in reversed(self._open):
            helper.close()
        for action in reversed(self._undo):
            action()
        if not os.environ.get("OUTBOX_E2E_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)


def wait_processed(outbox, seconds):
    """Waits until every row is Processed."""
    until(outbox.all_processed, seconds, lambda: f"all processed: {dict(outbox.states())}",
          poll=0.05)
