"""Ports for gateways that need to know theirs beforehand."""

import secrets
import socket

# Below 32,768, from where on the system gives a port to those that ask for any.
_FIRST = 10_000
_LAST = 32_000


def find_free_port() -> int:
    """A port on which nobody listens, and that the system gives to nobody meanwhile."""
    while True:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue  # somebody listens there
