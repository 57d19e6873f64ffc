"""Fixtures of the end-to-end tests, and the relay's log when one fails."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import amqp, postgres  # noqa: E402
from harness.pair import MISSING, Pair  # noqa: E402
from harness.relay import binary  # noqa: E402
from harness.world import World  # noqa: E402


def pytest_collection_modifyitems(items):
    if items and not os.access(binary(), os.X_OK):
        pytest.exit(f"{binary()} is missing: build it, or name it in OUTBOX_RELAY_BIN", 1)


@pytest.fixture
def world(request):
    world = World()
    request.node.world = world
    yield world
    world.close()


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL server for the tests of one file, which may have one of its own."""
    if postgres.MISSING:
        pytest.skip(f"not installed: {', '.join(postgres.MISSING)}")
    started = postgres.postgresql.PostgreSql()
    started.start()
    yield started
    started.stop()


@pytest.fixture
def outbox(server):
    """An outbox in a database of its own on that server."""
    return postgres.PostgresOutbox(server)


@pytest.fixture(scope="module")
def pair_servers():
    """PostgreSQL and RabbitMQ for the tests of one file."""
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    started = []
    try:
        for server in (postgres.postgresql.PostgreSql(autovacuum="on", autovacuum_naptime="5s"),
                       amqp.rabbitmq.RabbitMq()):
            started.append(server)
            server.start()
        yield started
    finally:
        for server in started:
            server.stop()


@pytest.fixture
def way():
    """How relays reach the database; harness.pair.by_way says otherwise."""
    return "direct"


@pytest.fixture
def pair(world, pair_servers, way):
    return Pair(world, *pair_servers, way)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    world = getattr(item, "world", None)
    if report.failed and world is not None:
        for relay in world.relays:
            report.sections.append((f"log of {relay.name}", relay.log_tail()))
