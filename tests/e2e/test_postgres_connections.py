"""How a relay gets at its PostgreSQL server: names, several servers, TLS, passwords, limits."""

import collections
import os
import random
import shutil
import socket
import subprocess

import pytest

from harness import postgres
from harness.authority import Authority
from harness.process import replace_file
from harness.waiting import until

pytestmark = pytest.mark.skipif(bool(postgres.MISSING),
                                reason=f"not installed: {', '.join(postgres.MISSING)}")
ACCESS = """local all all trust
hostssl all with_certificate 127.0.0.1/32 cert
hostssl all with_password 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
SLOTS = 12


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(str(tmp_path_factory.mktemp("authority")))


@pytest.fixture(scope="module")
def server(authority):
    """Speaks TLS as localhost, and has few places."""
    started = postgres.postgresql.PostgreSql(
        ssl="on", ssl_cert_file="server.pem", ssl_key_file="server.key",
        ssl_ca_file="authority.pem", max_connections=SLOTS, superuser_reserved_connections=3)
    certificate, key = authority.issue("server", "DNS:localhost")
    for path, name in ((certificate, "server.pem"), (key, "server.key"),
                       (authority.file, "authority.pem")):
        copy = os.path.join(started.data, name)
        shutil.copy(path, copy)
        shutil.chown(copy, *(["postgres"] * 2 if started.user else [os.getuid(), os.getgid()]))
        os.chmod(copy, 0o600)
    with open(os.path.join(started.data, "pg_hba.conf"), "w", encoding="ascii") as file:
        file.write(ACCESS)
    started.start()
    started.psql("CREATE ROLE with_certificate LOGIN SUPERUSER; CREATE ROLE limited LOGIN; "
                 "CREATE ROLE with_password LOGIN SUPERUSER PASSWORD 'first'")
    yield started
    started.stop()


@pytest.fixture
def outbox(server):
    return postgres.PostgresOutbox(server)


class At:
    """The same outbox by another URL."""

    def __init__(self, outbox, host="localhost", user="postgres", **options):
        words = "&".join(f"{name}={value}" for name, value in options.items())
        port = "" if ":" in host else f":{outbox.server.port}"
        self.url = f"postgres://{user}@{host}{port}/{outbox.database}?{words}"


def fill(outbox, count, prefix="evt"):
    outbox.sql("INSERT INTO outbox_messages (id, event_type, payload) SELECT "
               f"'{prefix}-' || g, 'order.placed', '{{}}' FROM generate_series(1, {count}) AS g")
    return [f"{prefix}-{number}" for number in range(1, count + 1)]


def all_sent_once(outbox, receiver, ids, seconds=30):
    until(outbox.all_processed, seconds, lambda: f"all processed: {outbox.states()}", poll=0.1)
    counts = collections.Counter(receiver.accepted_ids())
    assert counts == collections.Counter(ids), [name for name in counts if counts[name] > 1][:9]


def reason_is(relay, *texts):
    until(lambda: all(text in relay.get("/readyz")[1] for text in texts), 20,
          lambda: f"{texts} on /readyz: {relay.get('/readyz')}")
    assert relay.get("/readyz")[0] == 503 and relay.get("/livez")[0] == 200


def end_sessions(server, times=1):
    for _ in range(times):
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'outbox-relay relay%'")


class MuteNameServer:
    """Takes questions and never answers. Programs under `wrapper` ask nobody else."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(20)
        self.address = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.77"
        self.wrapper = os.path.join(folder, "without-names")
        settings = os.path.join(folder, "resolv.conf")
        with open(settings, "w", encoding="ascii") as file:
            # So patient that waiting for it would fail the test.
            file.write(f"nameserver {self.address}\noptions timeout:30 attempts:5\n")
        with open(self.wrapper, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexec unshare -m sh -c 'mount --bind \"$0\" /etc/resolv.conf && "
                       f"exec \"$@\"' {settings} \"$@\"\n")
        os.chmod(self.wrapper, 0o755)

    def usable(self):
        try:
            self.socket.bind((self.address, 53))
        except OSError:
            return False
        return subprocess.run([self.wrapper, "true"], check=False, timeout=30).returncode == 0


@pytest.fixture
def names(world):
    mute = MuteNameServer(world.folder)
    world.finally_do(mute.socket.close)
    if not mute.usable():
        pytest.skip("no right to have a name server of one's own")
    return mute


def without_names(world, outbox, names, store, settings=None):
    relay = world.relay(outbox, world.receiver(), settings, start=False)
    program = os.path.join(world.folder, "relay-without-names")
    with open(program, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\nexec {names.wrapper} {relay.program} \"$@\" "
                   f"--set 'store.url={store.url}'\n")
    os.chmod(program, 0o755)
    relay.program = program
    return relay


def test_a_name_server_that_is_silent_is_given_up(world, outbox, names):
    """The relay says so, goes on asking, and ends when it is told to."""
    store = At(outbox, "db.example", sslmode="disable")
    relay = without_names(world, outbox, names, store, {"store": {"commandTimeout": "2s"},
                                                        "relay": {"drainTimeout": "1s"}})
    relay.start(wait=False)
    assert names.socket.recv(512)
    reason_is(relay, "the name db.example was not resolved in time")
    assert relay.stop(20) in (0, 1)


def test_a_name_that_is_not_resolved_costs_only_its_own_server(world, outbox, names):
    store = At(outbox, f"db.example:5432,127.0.0.1:{outbox.server.port}", sslmode="disable")
    relay = without_names(world, outbox, names, store)
    relay.start(seconds=20)
    fill(outbox, 1)
    until(outbox.all_processed, 20, lambda: f"delivered: {outbox.states()}")
    assert names.socket.recv(512)


def test_the_second_server_is_gone_on_with_once_it_is_promoted(world):
    primary = postgres.postgresql.PostgreSql(synchronous_standby_names="*")
    standby = postgres.postgresql.PostgreSql()
    for each in (primary, standby):
        world.finally_do(each.stop)
    primary.settings["synchronous_standby_names"] = ""
    primary.start()
    outbox = postgres.PostgresOutbox(primary)
    shutil.rmtree(standby.data)
    subprocess.run([*standby.user, postgres.postgresql.PROGRAMS + "/pg_basebackup", "-R", "-D",
                    standby.data, "-c", "fast", "-h", "127.0.0.1", "-p", str(primary.port), "-U",
                    "postgres"], check=True, capture_output=True, timeout=120, cwd=standby.folder)
    standby.start()
    primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.halt()
    primary.settings.pop("synchronous_standby_names")
    primary.start()
    until(lambda: primary.psql("SELECT sync_state FROM pg_stat_replication") == "sync", 60,
          "what is committed is on both")
    receiver = world.receiver()
    hosts = f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
    relay = world.relay(At(outbox, hosts, target_session_attrs="read-write"), receiver,
                        {"relay": {"leaseTerm": "60s", "batchSize": 50},
                         "store": {"commandTimeout": "5s"}})
    ids = fill(outbox, 3000)
    until(lambda: len(receiver.accepted_ids()) > 500, 60, "some rows are sent")
    primary.kill()
    reason_is(relay, "read replica")
    standby.psql("SELECT pg_promote()")
    until(lambda: relay.get("/readyz")[0] == 200, 30, "the new primary is used")
    outbox.server = standby
    ids += fill(outbox, 100, "after")
    all_sent_once(outbox, receiver, ids, 90)


def test_a_server_that_is_what_it_says_is_spoken_to_over_tls(world, server, outbox, authority):
    receiver = world.receiver()
    world.relay(At(outbox, sslmode="verify-full", sslrootcert=authority.file), receiver)
    ids = fill(outbox, 5)
    all_sent_once(outbox, receiver, ids)
    assert server.psql("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
                       "WHERE application_name LIKE 'outbox-relay relay%'") == "t"


@pytest.mark.parametrize("store,texts", [
    ({"sslmode": "verify-full", "sslrootcert": "{other}"},
     ["certificate verify failed", "sslrootcert in store.url"]),
    ({"host": "127.0.0.1", "sslmode": "verify-full", "sslrootcert": "{authority}"},
     ["does not match host name", "connect by a name that the server's certificate holds"]),
    ({"sslmode": "verify-full", "sslrootcert": "/no/such/authority.pem"},
     ["/no/such/authority.pem", "correct sslrootcert"]),
    ({"user": "with_certificate", "sslmode": "verify-full", "sslrootcert": "{authority}"},
     ["certificate", "sslcert and sslkey in store.url"]),
    ({"user": "with_certificate", "sslmode": "verify-full", "sslrootcert": "{authority}",
      "sslcert": "{wrong}.pem", "sslkey": "{wrong}.key"},
     ["certificate authentication failed", "issued to its user"]),
], ids=["another authority", "another name", "no authority", "no certificate of its own",
        "somebody else's certificate"])
def test_a_server_that_must_not_be_spoken_to_is_told_apart(world, outbox, authority, store, texts):
    other = Authority(world.folder, "other")
    wrong = authority.issue("somebody")[0].removesuffix(".pem")
    words = {name: value.format(other=other.file, authority=authority.file, wrong=wrong)
             for name, value in store.items()}
    fill(outbox, 1)
    relay = world.relay(At(outbox, **words), world.receiver(), start=False)
    relay.start(wait=False)
    reason_is(relay, *texts)
    assert outbox.sql("SELECT count(*) FROM outbox_relay_leases") == "0"
    assert outbox.states() == {"Pending": 1}


def test_a_relay_shows_its_own_certificate(world, outbox, authority):
    certificate, key = authority.issue("with_certificate")
    receiver = world.receiver()
    world.relay(At(outbox, user="with_certificate", sslmode="verify-full",
                   sslrootcert=authority.file, sslcert=certificate, sslkey=key), receiver)
    all_sent_once(outbox, receiver, fill(outbox, 3))


def test_a_server_without_tls_is_not_spoken_to_where_tls_is_wanted(world):
    plain = postgres.postgresql.PostgreSql()
    world.finally_do(plain.stop)
    plain.start()
    outbox = postgres.PostgresOutbox(plain)
    relay = world.relay(At(outbox, sslmode="require"), world.receiver(), start=False)
    relay.start(wait=False)
    reason_is(relay, "server does not support SSL", "ssl = on")


def test_a_password_that_was_changed_is_read_anew(world, server, outbox):
    path = os.path.join(world.folder, "password")
    replace_file(path, "first\n")
    receiver = world.receiver()
    store = At(outbox, user="with_password", sslmode="require")
    relay = world.relay(store, receiver, {"store": {"passwordFile": path}})
    ids = fill(outbox, 5, "before")
    all_sent_once(outbox, receiver, ids)
    server.psql("ALTER ROLE with_password PASSWORD 'second'")
    end_sessions(server)
    reason_is(relay, "password authentication failed", "store.passwordFile")
    ids += fill(outbox, 5, "between")
    replace_file(path, "second\n")
    all_sent_once(outbox, receiver, ids)
    server.psql("ALTER ROLE with_password PASSWORD 'first'")


def test_no_room_for_another_connection_is_told_and_waited_for(world, server, outbox):
    outbox.sql("\n".join(outbox.command("init", "--grants", "limited").stdout.splitlines()))
    receiver = world.receiver()
    relay = world.relay(At(outbox, user="limited"), receiver)
    server.psql("ALTER ROLE limited CONNECTION LIMIT 0")
    end_sessions(server)
    reason_is(relay, "too many connections for role", "a relay needs two connections")
    ids = fill(outbox, 5)
    server.psql("ALTER ROLE limited CONNECTION LIMIT -1")
    all_sent_once(outbox, receiver, ids)
    # Now the server's own limit.
    sessions = [postgres.Session(outbox)]
    try:
        end_sessions(server)
        sessions += [postgres.Session(outbox) for _ in range(SLOTS - 4)]
        for session in sessions:
            session.sql("SELECT 1")
        end_sessions(server)
        reason_is(relay, "connection slots", "raise max_connections")
        ids += fill(outbox, 5, "full")
    finally:
        for session in sessions:
            session.close()
    all_sent_once(outbox, receiver, ids)
    outbox.sql("DROP OWNED BY limited")


def test_sessions_that_are_ended_all_the_time_lose_nothing(world, server, outbox):
    receiver = world.receiver()
    world.relay(outbox, receiver, {"relay": {"batchSize": 20, "leaseTerm": "60s"}})
    ids = []
    for round_ in range(10):
        ids += fill(outbox, 200, f"round{round_}")
        until(lambda: len(receiver.accepted_ids()) > len(ids) - 150, 30, "some of them are sent")
        end_sessions(server)
    all_sent_once(outbox, receiver, ids)


def test_defaults_of_the_database_that_would_stop_a_relay_do_not(world, outbox):
    for setting in ("default_transaction_read_only = on", "lock_timeout = '1ms'",
                    "idle_in_transaction_session_timeout = '1ms'",
                    "default_transaction_isolation = 'serializable'", "bytea_output = 'escape'",
                    "DateStyle = 'SQL, DMY'", "standard_conforming_strings = off",
                    "TimeZone = 'Asia/Kathmandu'"):
        outbox.server.psql(f"ALTER DATABASE {outbox.database} SET {setting}")
    receiver = world.receiver()
    receiver.rules({"types": ["order.poison"], "status": 503})
    relay = world.relay(outbox, receiver, {"retry": {"maxAttempts": 2, "baseDelay": "100ms"}})
    outbox.server.psql("SET default_transaction_read_only = off; INSERT INTO outbox_messages "
                       "(id, event_type, payload) VALUES ('a', 'x', '{}'), "
                       "('b', 'order.poison', '{}')", outbox.database)
    until(lambda: outbox.states().get("Processed") == 1, 20, lambda: f"sent: {outbox.states()}")
    until(lambda: outbox.sql("SELECT retry_count > 0 FROM outbox_messages WHERE id = 'b'") == "t",
          20, "and the failure is noted")
    assert relay.get("/readyz")[0] == 200


@pytest.fixture
def small(world):
    """A server on a disk of its own, with little room."""
    tight = postgres.postgresql.PostgreSql(max_wal_size="64MB", min_wal_size="32MB")
    world.finally_do(lambda: shutil.rmtree(tight.folder, ignore_errors=True))
    aside = tight.data + ".aside"
    os.rename(tight.data, aside)
    os.mkdir(tight.data)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "none", tight.data],
                             check=False, capture_output=True, timeout=30)
    if mounted.returncode != 0:
        pytest.skip("no right to mount a disk")
    world.finally_do(lambda: subprocess.run(["umount", tight.data], check=True, timeout=30))
    subprocess.run(["cp", "-a", aside + "/.", tight.data], check=True, timeout=60)
    world.finally_do(tight.stop)
    tight.start()
    return tight


def test_a_full_disk_is_told_and_all_is_sent_when_there_is_room(world, small):
    outbox, receiver = postgres.PostgresOutbox(small), world.receiver()
    ids = fill(outbox, 4000)
    filler = os.path.join(small.data, "filler")
    with open(filler, "wb", buffering=0) as file:
        with pytest.raises(OSError):
            while file.write(bytes(1 << 12)) == 1 << 12:
                pass
            raise OSError("the last part did not fit")
    relay = world.relay(outbox, receiver, {"relay": {"leaseTerm": "60s"}}, start=False)
    relay.start(wait=False)
    reason_is(relay, "No space left on device")
    os.remove(filler)
    all_sent_once(outbox, receiver, ids, 60)
