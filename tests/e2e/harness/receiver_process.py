"""An HTTP receiver on the asyncio protocol layer: fast enough not to be what is measured.

Each request is written to an append-only log before it is answered. What it answers is decided by
rules that the test may change at any time; without a rule it is 200.
"""

import asyncio
import hashlib
import json
import os
import ssl
import sys
import time

from control import say, serve_commands

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
REASONS = {200: "OK", 202: "Accepted", 204: "No Content", 302: "Found", 400: "Bad Request",
           401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict",
           429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}


class Rule:
    """What to answer to the requests that match; a rule without ids and types matches all."""

    def __init__(self, ids=None, types=None, status=200, headers=None, body="", body_size=0,
                 delay=0.0, hang=False, reset=False, times=None):
        self.ids = set(ids) if ids is not None else None
        self.types = set(types) if types is not None else None
        self.answer = "hang" if hang else "reset" if reset else status
        self.delay = delay
        self.times = times
        body = body or "x" * body_size
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += [f"Content-Length: {len(body.encode())}", "", body]
        self.bytes = "\r\n".join(lines).encode()

    def matches(self, event_id, event_type):
        if self.times is not None and self.times <= 0:
            return False
        if self.ids is not None and event_id not in self.ids:
            return False
        return self.types is None or event_type in self.types


class State:
    def __init__(self, log_path):
        self.log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.rules = []
        self.number = 0
        self.connections = 0
        self.open = 0

    def rule_for(self, event_id, event_type):
        for rule in self.rules:
            if rule.matches(event_id, event_type):
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return None

    def record(self, entry):
        self.number += 1
        entry["n"] = self.number
        os.write(self.log, (json.dumps(entry) + "\n").encode())


def peer_name(certificate):
    """The common name of a client's certificate, None if it showed none."""
    subject = dict(pair for part in (certificate or {}).get("subject", ()) for pair in part)
    return subject.get("commonName")


class Connection(asyncio.Protocol):
    def __init__(self, state):
        self.state = state
        self.buffer = bytearray()
        self.need = 0
        self.busy = False

    def connection_made(self, transport):
        self.transport = transport
        self.state.connections += 1
        self.state.open += 1
        self.number = self.state.connections
        self.peer = peer_name(transport.get_extra_info("peercert"))

    def connection_lost(self, error):
        self.state.open -= 1

    def data_received(self, data):
        self.buffer += data
        self.advance()

    def advance(self):
        while not self.busy and len(self.buffer) >= self.need:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = [line.partition(":")[::2] for line in lines[1:]]
            headers = [(name.lower(), value.strip(" \t")) for name, value in headers]
            names = dict(headers)
            self.need = end + 4 + int(names.get("content-length", 0))
            if len(self.buffer) < self.need:
                return
            body = bytes(self.buffer[end + 4:self.need])
            del self.buffer[:self.need]
            self.need = 0
            self.take(lines[0], headers, names, body)

    def take(self, request_line, headers, names, body):
        method, path, _ = (request_line + "  ").split(" ", 2)
        event_id = names.get("idempotency-key")
        event_type = names.get("ce-type")
        rule = self.state.rule_for(event_id, event_type)
        self.state.record({
            "t": time.monotonic(), "conn": self.number, "method": method, "path": path,
            "id": event_id, "type": event_type, "sha": hashlib.sha256(body).hexdigest(),
            "size": len(body), "headers": headers, "peer": self.peer,
            "answer": rule.answer if rule else 200})
        if rule is None:
            self.transport.write(OK)
        elif rule.delay:
            self.busy = True
            asyncio.get_running_loop().call_later(rule.delay, self.answer, rule)
        else:
            self.answer(rule)

    def answer(self, rule):
        self.busy = rule.answer == "hang"
        if rule.answer == "reset":
            self.transport.abort()
        elif rule.answer != "hang" and not self.transport.is_closing():
            self.transport.write(rule.bytes)
            self.advance()


async def main():
    arguments = json.loads(sys.argv[1])
    state = State(arguments["log"])
    loop = asyncio.get_running_loop()
    tls = None
    if arguments["certificate"]:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(arguments["certificate"], arguments["key"])
    if arguments["client_ca"]:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(arguments["client_ca"])
    server = await loop.create_server(lambda: Connection(state), "127.0.0.1", 0, backlog=1024,
                                      ssl=tls)

    def answer(command):
        if command["command"] == "rules":
            state.rules = [Rule(**rule) for rule in command["rules"]]
        return {"requests": state.number, "connections": state.connections, "open": state.open}

    say({"port": server.sockets[0].getsockname()[1]})
    await serve_commands(answer)


asyncio.run(main())
