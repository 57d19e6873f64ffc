"""The test's handle of the proxy process."""

import os
import signal

from .process import Helper, LineLog


class TcpProxy(Helper):
    script = "proxy_process.py"

    def __init__(self, folder, upstream_port, name="proxy", opaque=False):
        path = os.path.join(folder, f"{name}.jsonl")
        open(path, "wb").close()
        super().__init__(log=path, upstream=upstream_port, opaque=opaque)
        self.port = self.hello["port"]
        self._log = LineLog(path)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/inbox"

    def let_pass(self):
        self.call("mode", mode="pass")

    def refuse(self):
        """From now on each connection is accepted and reset; those that are open are reset."""
        self.call("mode", mode="refuse")
        self.call("drop")

    def black_hole(self):
        """From now on nothing is forwarded or answered, on old connections and on new ones."""
        self.call("mode", mode="black_hole")

    def cut_answers(self, after=0):
        """The receiver gets the request; its answer is cut after so many bytes."""
        self.call("mode", mode="cut", cut_after=after)

    def cut_next_commit(self):
        """The next COMMIT reaches the database; its answer does not come back."""
        self.call("mode", mode="cut_commit")

    def cut_next_answer(self):
        """What was asked has been passed on; the connection is reset instead of answering."""
        self.call("mode", mode="cut_next")

    def forget_connections(self):
        """Those that are open lead nowhere from now on, as when a firewall has forgotten them."""
        self.call("forget")

    def open_connections(self):
        return self.call("count")["open"]

    def cuts(self):
        return [entry for entry in self._log.entries() if entry["what"] == "cut"]

    def delay_answers(self, seconds):
        self.call("mode", mode="delay", delay=seconds)

    def drop_connections(self):
        self.call("drop")

    def stall(self):
        """Nothing passes, and nothing is lost, until go_on()."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def close_listener(self):
        self.call("close_listener")

    def open_listener(self):
        self.call("open_listener")

    def connections(self):
        return [entry for entry in self._log.entries() if entry["what"] == "connect"]

    def requests(self):
        """Requests whose head was seen, forwarded or not."""
        return [entry for entry in self._log.entries() if entry["what"] == "request"]

    def attempts(self):
        """What a client put on the wire: requests, and connections that were reset at once."""
        return [entry for entry in self._log.entries()
                if entry["what"] == "request" or entry["mode"] == "refuse"]
