"""Links to a network namespace, on which packets can be lost without a word: Linux, for root only.

A namespace lasts as long as the process that stands for it, which ends with this one; its links end with it.
"""

import contextlib
import functools
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_NETWORKS = "198.18"  # kept for tests of networks (RFC 2544)
_NOBODY = "02:00:00:00:00:01"  # a hardware address that none of the two ends has


@dataclass(frozen=True, slots=True)
class NetworkLink:
    """Two ends, `host` here and `inner_host` in the namespace of the process `pid`."""

    name: str
    pid: int
    host: str
    inner_host: str

    def open(self) -> None:
        """Make both ends."""
        _run_ip("link", "add", self.name, "type", "veth", "peer", "name", self.name, "netns", str(self.pid))
        for launch, host, _ in self._list_ends():
            _run_ip("address", "add", f"{host}/30", "dev", self.name, launch=launch)
            _run_ip("link", "set", self.name, "up", launch=launch)

    def silence(self) -> None:
        """Lose every packet from now on; neither end is told."""
        for launch, _, other_host in self._list_ends():
            neighbour = ("to", other_host, "dev", self.name, "lladdr", _NOBODY, "nud", "permanent")
            _run_ip("neighbour", "replace", *neighbour, launch=launch)

    def restore(self) -> None:
        """Lose nothing more."""
        for launch, _, other_host in self._list_ends():
            _run_ip("neighbour", "delete", "to", other_host, "dev", self.name, launch=launch)

    def _list_ends(self) -> list[tuple[Sequence[str], str, str]]:
        """For each end: what runs a command there, its address, and the other one's."""
        return [
            ((), self.host, self.inner_host),
            (enter_namespace(self.pid), self.inner_host, self.host),
        ]


def enter_namespace(pid: int) -> tuple[str, ...]:
    """What runs a command in the network namespace of a process."""
    return (_find_program("nsenter"), f"--net=/proc/{pid}/ns/net")


@contextlib.contextmanager
def open_links(count: int) -> Iterator[Sequence[NetworkLink]]:
    """A namespace, and so many links to it."""
    command = [_find_program("unshare"), "--net", "sh", "-c", "echo ready; read _"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise PermissionError("no network namespace can be made")
        _run_ip("link", "set", "lo", "up", launch=enter_namespace(process.pid))
        networks = random.sample(range(2**14), count)  # of four addresses each; several tests may run
        links = [_plan_link(number, process.pid, network) for number, network in enumerate(networks)]
        for link in links:
            link.open()
        try:
            yield links
        finally:
            process.stdin.close()


def explain_missing() -> str:
    """Why there can be no link here; empty: there can."""
    try:
        with open_links(1) as [link]:
            link.silence()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces need Linux, iproute2 and root: {error}"
    return ""


def _plan_link(number: int, pid: int, network: int) -> NetworkLink:
    third, fourth = divmod(4 * network, 256)
    return NetworkLink(
        f"test{pid}-{number}",
        pid,
        f"{_NETWORKS}.{third}.{fourth + 1}",
        f"{_NETWORKS}.{third}.{fourth + 2}",
    )


def _run_ip(*arguments: str, launch: Sequence[str] = ()) -> None:
    """Run `ip`; `launch` runs it elsewhere."""
    subprocess.run([*launch, _find_program("ip"), *arguments], check=True, capture_output=True)


@functools.cache
def _find_program(name: str) -> str:
    """A program, also of those that only root has in its path."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise FileNotFoundError(f"{name} is not installed")
    return path
