"""A TCP proxy that counts what passes and misbehaves on command.

Modes: pass; refuse (accept, then reset at once); black_hole (accept, read, never forward or
answer); cut (reset the connection when `cut_after` bytes of an answer have passed); delay (each
answer waits `delay` seconds); cut_commit (pass a database client's COMMIT on, and reset when it was
carried out instead of answering; then pass); cut_next (reset instead of passing the next answer on;
then pass).
`close_listener` makes connecting fail for real (ECONNREFUSED). `forget` makes the connections that
are open black holes for ever, whatever the mode. An opaque proxy does not look for requests.
"""

import asyncio
import json
import os
import socket
import struct
import sys
import time

from control import say, serve_commands


# How PostgreSQL's protocol spells it: alone, and among statements that travel together.
COMMITS = b"Q\0\0\0\x0bCOMMIT\0", b"\0COMMIT\0\0\0"
# The server's word that no transaction is open any more.
ENDED = b"Z\0\0\0\x05I"


class RequestCounter:
    """Finds the heads of HTTP requests in one direction of a connection."""

    def __init__(self, on_request):
        self.on_request = on_request
        self.head = bytearray()
        self.body_left = 0

    def feed(self, data):
        view = memoryview(data)
        while view:
            if self.body_left:
                skip = min(self.body_left, len(view))
                self.body_left -= skip
                view = view[skip:]
                continue
            before = len(self.head)
            self.head += view
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            view = view[end + 4 - before:]
            lines = bytes(self.head[:end]).decode("latin-1").lower().split("\r\n")
            fields = dict(line.partition(":")[::2] for line in lines[1:])
            self.head.clear()
            self.body_left = int(fields.get("content-length", "0").strip())
            self.on_request(fields.get("idempotency-key", "").strip())


class State:
    def __init__(self, arguments):
        self.log = os.open(arguments["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.upstream_port = arguments["upstream"]
        self.opaque = arguments.get("opaque", False)
        self.mode = "pass"
        self.cut_after = 0
        self.delay = 0.0
        self.connections = 0
        self.clients = set()
        self.server = None
        self.port = 0

    def record(self, what, connection, **more):
        entry = {"t": time.monotonic(), "what": what, "conn": connection, "mode": self.mode, **more}
        os.write(self.log, (json.dumps(entry) + "\n").encode())

    async def listen(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: Client(self), "127.0.0.1", self.port, reuse_address=True, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    async def command(self, command):
        name = command["command"]
        if name == "mode":
            self.mode = command["mode"]
            self.cut_after = command.get("cut_after", 0)
            self.delay = command.get("delay", 0.0)
        elif name == "drop":
            for client in list(self.clients):
                client.reset()
        elif name == "forget":
            for client in self.clients:
                client.forgotten = True
        elif name == "close_listener":
            self.server.close()
            for client in list(self.clients):
                client.reset()
        elif name == "open_listener":
            await self.listen()
        return {"connections": self.connections, "open": len(self.clients)}


def reset(transport):
    """Closes a connection with RST instead of FIN."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Client(asyncio.Protocol):
    def __init__(self, state):
        self.state = state
        self.upstream = None
        self.waiting = bytearray()
        self.passed = 0
        self.mute = False
        self.committing = False
        self.unanswered = b""
        self.forgotten = False

    def swallowed(self):
        return self.forgotten or self.state.mode == "black_hole"

    def connection_made(self, transport):
        self.transport = transport
        self.state.connections += 1
        self.number = self.state.connections
        self.state.record("connect", self.number)
        self.counter = RequestCounter(
            lambda event_id: self.state.record("request", self.number, id=event_id))
        if self.state.mode == "refuse":
            reset(transport)
            return
        self.state.clients.add(self)
        if self.state.mode != "black_hole":
            asyncio.get_running_loop().create_task(self.connect())

    async def connect(self):
        loop = asyncio.get_running_loop()
        try:
            self.upstream, _ = await loop.create_connection(
                lambda: Upstream(self), "127.0.0.1", self.state.upstream_port)
        except OSError:
            self.reset()
            return
        self.upstream.write(bytes(self.waiting))
        self.waiting.clear()

    def reset(self):
        reset(self.transport)
        if self.upstream is not None:
            self.upstream.abort()

    def connection_lost(self, error):
        self.state.clients.discard(self)
        if self.upstream is not None:
            self.upstream.abort()

    def data_received(self, data):
        if not self.state.opaque:
            self.counter.feed(data)
        if self.swallowed():
            return
        if self.state.mode == "cut_commit" and any(commit in data for commit in COMMITS):
            self.state.mode = "pass"
            self.state.record("cut", self.number)
            self.committing = True
        if self.upstream is None:
            self.waiting += data
        else:
            self.upstream.write(data)

    def answer(self, data):
        if self.swallowed() or self.transport.is_closing():
            return
        if self.state.mode == "cut_next":
            self.state.mode = "pass"
            self.state.record("cut", self.number)
            self.mute = True
        if self.committing:
            self.unanswered = self.unanswered[-len(ENDED):] + data
            self.mute = ENDED in self.unanswered
            if not self.mute:
                return
        if self.mute:
            self.reset()  # it was carried out, and nobody is told
            return
        if self.state.mode == "cut":
            left = self.state.cut_after - self.passed
            if len(data) > left:
                self.transport.write(data[:max(left, 0)])
                self.reset()
                return
        self.passed += len(data)
        if self.state.mode == "delay":
            asyncio.get_running_loop().call_later(self.state.delay, self.transport.write, data)
        else:
            self.transport.write(data)


class Upstream(asyncio.Protocol):
    def __init__(self, client):
        self.client = client

    def data_received(self, data):
        self.client.answer(data)

    def connection_lost(self, error):
        if not self.client.swallowed():
            self.client.transport.close()


async def main():
    state = State(json.loads(sys.argv[1]))
    await state.listen()
    say({"port": state.port})
    await serve_commands(state.command)


asyncio.run(main())
