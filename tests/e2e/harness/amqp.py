"""A quorum queue in a RabbitMQ server, and a consumer of it that is not ours."""

import itertools
import os
import pathlib
import sys

from .library_receiver import LibraryHelper
from .process import LineLog
from .waiting import until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "servers"))

import rabbitmq  # noqa: E402

MISSING = [path for path in (rabbitmq.SERVER,) if not os.path.exists(path)]
_numbers = itertools.count(1)


class Consumer(LibraryHelper):
    """The npm package `amqplib`."""

    script = "consumer.js"

    def __init__(self, folder, url, name="consumed"):
        path = os.path.join(folder, f"{name}.jsonl")
        open(path, "wb").close()
        super().__init__(log=path, url=url)
        self._log = LineLog(path)

    def deliveries(self):
        """All that came so far, in the order of arrival."""
        return self._log.entries()

    def ask(self, method, *arguments):
        """Calls a method of an amqplib channel; returns {"result": ...} or {"error": text}."""
        return self.call("call", method=method, arguments=arguments)

    def must(self, method, *arguments):
        answer = self.ask(method, *arguments)
        assert "error" not in answer, f"{method}{arguments}: {answer}"
        return answer["result"]


class Queue:
    """A durable quorum queue bound to a topic exchange for all routing keys, and its consumer."""

    def __init__(self, folder, server, consume=True, **arguments):
        number = next(_numbers)
        self.exchange, self.name = f"events{number}", f"orders{number}"
        self.server = server
        self.consumer = Consumer(folder, server.url, f"consumed{number}")
        self.declare(**arguments)
        if consume:
            self.consume()

    def declare(self, **arguments):
        """`arguments` in Python's spelling: max_length=10 is x-max-length."""
        extra = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
        self.consumer.must("assertExchange", self.exchange, "topic", {"durable": True})
        self.consumer.must("assertQueue", self.name, {
            "durable": True, "arguments": {"x-queue-type": "quorum", **extra}})
        self.bind()

    def wait_durable(self):
        """RabbitMQ 3.10 writes a new quorum queue's name down a second late: a crash before that
        leaves a queue without a leader, which is nothing that a relay could mend."""
        def noted():
            files = pathlib.Path(self.server.folder).glob("data/*/quorum/*/names.dets")
            return any(self.name.encode() in file.read_bytes() for file in files)

        until(noted, 30, f"{self.name} is written down")

    def bind(self):
        self.consumer.must("bindQueue", self.name, self.exchange, "#")

    def unbind(self):
        self.consumer.must("unbindQueue", self.name, self.exchange, "#")

    def consume(self):
        self.consumer.call("consume", queue=self.name)

    def rest(self):
        """The consumer hangs up: what is published stays in the queue."""
        self.consumer.call("consume")

    def length(self):
        return self.consumer.must("checkQueue", self.name)["messageCount"]

    def arrivals(self):
        """What was published into the queue, in order. RabbitMQ repeats what a lost connection of
        the consumer left unacknowledged; these repeats are not the relay's and left out."""
        seen, found = set(), []
        for entry in self.consumer.deliveries():
            attempt = (entry["id"], str(entry["headers"].get("outbox-attempt")))
            if entry["redelivered"] and attempt in seen:
                continue
            seen.add(attempt)
            found.append(entry)
        return found

    def ids(self):
        return [entry["id"] for entry in self.arrivals()]

    def wait_for_ids(self, ids, seconds):
        """Waits until every id has arrived at least once."""
        wanted = set(ids)

        def missing():
            return len(wanted - set(self.ids()))

        until(lambda: missing() == 0, seconds,
              lambda: f"{missing()} of {len(wanted)} ids still to arrive", poll=0.1)

    def wait_for_count(self, count, seconds):
        until(lambda: len(self.consumer.deliveries()) >= count, seconds,
              lambda: f"{count} arrivals, so far {len(self.consumer.deliveries())}")
