"""Ports for test servers."""

import random
import socket


def free_port():
    """One below those that the kernel gives to clients: it stays free while its server is down."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue  # taken
