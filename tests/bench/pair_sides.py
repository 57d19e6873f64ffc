"""PostgreSQL and RabbitMQ as they are measured: servers of their own, the raw tools, the relay."""

import os
import sys

from harness.waiting import until

import machine
import pg_outboxes
import sides
from sides import Flow

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "servers"))

import postgresql  # noqa: E402
import rabbitmq  # noqa: E402

NEEDED = (postgresql.SERVER, "/usr/bin/psql", rabbitmq.SERVER)
# As it is packaged; tests do without some of it.
STOCK_SETTINGS = {"autovacuum": "on", "fsync": "on", "shared_buffers": "128MB"}
EXCHANGE = {"brokers": {"main": {"exchange": "bench"}}}


class Servers:
    """Start when they are needed first, and run until close()."""

    def __init__(self):
        self._postgres = None
        self._rabbitmq = None

    def postgres(self):
        if self._postgres is None:
            missing = [path for path in NEEDED if not os.path.exists(path)]
            if missing:
                raise RuntimeError(f"not installed: {', '.join(missing)}")
            self._postgres = postgresql.PostgreSql(**STOCK_SETTINGS)
            self._postgres.start()
        return self._postgres

    def rabbitmq(self):
        if self._rabbitmq is None:
            self._rabbitmq = rabbitmq.RabbitMq()
            self._rabbitmq.start()
        return self._rabbitmq

    def cpu_seconds(self):
        """Of all their processes so far."""
        running = [server.process for server in (self._postgres, self._rabbitmq)
                   if server is not None and server.process is not None]
        return sum(machine.tree_cpu_seconds(process.pid) for process in running)

    def close(self):
        for server in (self._postgres, self._rabbitmq):
            if server is not None:
                server.stop()


class Drain:
    """What a relay did to an outbox. `settled`: (second, rows) of each batch, in order."""

    def __init__(self, settled, cpu, memory_peak):
        self.settled = settled
        self.flow = Flow(rate_of(settled), cpu, memory_peak)

    def rate_of_first(self, rows):
        return rate_of(head(self.settled, rows))

    def rate_of_last(self, rows):
        return rate_of(head(self.settled[::-1], rows)[::-1])


def rate_of(settled):
    """From the first batch, which is not counted, to the last."""
    if len(settled) < 2:
        raise RuntimeError("too few batches")
    return sum(rows for _, rows in settled[1:]) / (settled[-1][0] - settled[0][0])


def head(settled, rows):
    """The first batches with at least so many rows."""
    total = 0
    for number, (_, count) in enumerate(settled):
        total += count
        if total >= rows:
            return settled[:number + 1]
    return settled


class Pair:
    """Both sides, for all measurements of the pair."""

    def __init__(self, bench, servers):
        self.bench = bench
        self.servers = servers
        self.idle_memory = None
        self.memory_peaks = []
        self._stock = None

    @property
    def stock(self):
        if self._stock is None:
            self._stock = pg_outboxes.PgStock(self.servers.postgres(), self.bench.events)
        return self._stock

    def broker_url(self):
        return self.servers.rabbitmq().url

    def empty_queue(self):
        self.bench.tools.call("declare", port=self.servers.rabbitmq().port)

    def raw_store(self, count, keyed=True):
        """Its server's processor time included."""
        outbox = self.stock.filled(count, keyed)
        before = self.servers.cpu_seconds()
        flow = self.bench.tools.flow("raw-postgres", url=outbox.url, batch=sides.BATCH)
        flow.cpu += (self.servers.cpu_seconds() - before) / count
        self.stock.discard(outbox)
        return flow

    def raw_publish(self, count):
        """Its server's processor time included."""
        self.empty_queue()
        before = self.servers.cpu_seconds()
        flow = self.bench.tools.flow("raw-rabbitmq", port=self.servers.rabbitmq().port,
                                     events=self.bench.events.path, count=count)
        flow.cpu += (self.servers.cpu_seconds() - before) / count
        return flow

    def relay_fresh(self, count, broker_url, settings=None, keyed=True):
        outbox = self.stock.filled(count, keyed)
        drained = self.relay(outbox, broker_url, settings)
        self.stock.discard(outbox)
        return drained

    def relay(self, outbox, broker_url, settings=None):
        """The relay sends the rows that were inserted last; its servers' processor time included."""
        relay = sides.new_relay(self.bench.folder, outbox, broker_url, settings)
        before = self.servers.cpu_seconds()
        with outbox.session() as session:
            try:
                relay.start(wait=False)
                wait_drained(relay, outbox, session)
                cpu = machine.cpu_seconds(relay.pid) + self.servers.cpu_seconds() - before
                peak = relay.memory_peak()
                relay.stop()
            finally:
                relay.close()
            settled = [(float(second), int(rows)) for second, rows in session.ask(
                "SELECT extract(epoch FROM processed_on_utc), count(*) FROM outbox_messages "
                f"WHERE sequence > {outbox.low} GROUP BY 1 ORDER BY 1")]
        self.memory_peaks.append(peak)
        return Drain(settled, cpu / (outbox.high - outbox.low), peak)


def wait_drained(relay, outbox, session):
    """Looks at the last row, and at all of them only when that is done: so little disturbs nobody."""
    def last_is_done():
        if not relay.running():
            raise RuntimeError(f"the relay ended by itself:\n{relay.log_tail()}")
        return session.value("SELECT status FROM outbox_messages "
                             f"WHERE sequence = {outbox.high}") == "Processed"

    def all_are_done():
        return session.value("SELECT count(*) FROM outbox_messages WHERE status <> 'Processed' "
                             f"AND sequence > {outbox.low}") == "0"

    until(last_is_done, sides.TIME_LIMIT, "the last row is processed", poll=sides.POLL)
    until(all_are_done, sides.TIME_LIMIT, "all rows are processed", poll=sides.POLL)
