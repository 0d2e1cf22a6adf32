"""A small proxy on loopback: forwards plain HTTP, tunnels CONNECT, speaks SOCKS 5, may ask for a password.

Every host leads to one port of this machine, so that only who goes through it finds the host.
"""

import base64
import contextlib
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

_REFUSAL = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy(socketserver.ThreadingTCPServer):
    """`targets`: the host of each request; `refused`: how many came without the password."""

    def __init__(self, port_behind: int, credentials: str) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.port_behind = port_behind
        self.credentials = credentials
        self.targets: list[str] = []
        self.refused = 0

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.server_address[1]}"


class _ProxyHandler(socketserver.StreamRequestHandler):
    """Serves one connection."""

    rbufsize = 0  # what follows the head is read from the socket
    server: Proxy

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            first = self.rfile.read(1)
            if first == b"\x05":
                self._serve_socks()
            elif first:
                self._serve_http(first)

    def _serve_http(self, head: bytes) -> None:
        while not head.endswith(b"\r\n\r\n") and (byte := self.rfile.read(1)):
            head += byte
        expected = b"basic " + base64.b64encode(self.server.credentials.encode()).lower()
        if self.server.credentials and expected not in head.lower():
            self.server.refused += 1
            self.wfile.write(_REFUSAL)
            return
        line, _, headers = head.partition(b"\r\n")
        method, target, _ = line.decode().split(" ")
        if method == "CONNECT":
            self.server.targets.append(target)
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            self._tunnel(b"")
            return
        host = urlsplit(target).netloc
        self.server.targets.append(host)
        request_line = f"{method} {target.partition(host)[2]} HTTP/1.1\r\nConnection: close\r\n"
        self._tunnel(request_line.encode() + headers)

    def _serve_socks(self) -> None:
        self._read_field()
        self.wfile.write(b"\x05\x02")
        self.rfile.read(1)
        given = b":".join((self._read_field(), self._read_field())).decode()
        is_allowed = given == self.server.credentials
        self.wfile.write(b"\x01\x00" if is_allowed else b"\x01\x01")
        if not is_allowed:
            self.server.refused += 1
            return
        self.rfile.read(4)
        host = self._read_field().decode()
        self.server.targets.append(f"{host}:{int.from_bytes(self.rfile.read(2), 'big')}")
        self.wfile.write(b"\x05\x00\x00\x01" + bytes(6))
        self._tunnel(b"")

    def _read_field(self) -> bytes:
        """What follows its length."""
        return self.rfile.read(self.rfile.read(1)[0])

    def _tunnel(self, first_bytes: bytes) -> None:
        """Carry bytes both ways until one side ends."""
        with socket.create_connection(("127.0.0.1", self.server.port_behind)) as behind:
            behind.sendall(first_bytes)
            others = {self.connection: behind, behind: self.connection}
            while True:
                for ready in select.select([*others], [], [])[0]:
                    data = ready.recv(65_536)
                    if not data:
                        return
                    others[ready].sendall(data)


@contextlib.contextmanager
def run_proxy(url_behind: str, credentials: str) -> Iterator[Proxy]:
    """Run a proxy behind which every host is the server at `url_behind`, in threads of its own."""
    with Proxy(urlsplit(url_behind).port or 0, credentials) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
