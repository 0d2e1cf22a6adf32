"""Decides which network addresses may be opened: those of the public internet. Pure but for the lookup."""

import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from tools.threads import run_in_thread

IPAddress = IPv4Address | IPv6Address
AddressFilter = Callable[[IPAddress], bool]
Resolver = Callable[[str, int], Awaitable[list[str]]]

# Special-purpose blocks of the IANA registry, written out because `is_global` differs between patch releases
# of Python.
BLOCKED_V4 = [
    IPv4Network("0.0.0.0/8"),  # this network
    IPv4Network("10.0.0.0/8"),  # private
    IPv4Network("100.64.0.0/10"),  # shared by a carrier's customers
    IPv4Network("127.0.0.0/8"),  # this machine
    IPv4Network("169.254.0.0/16"),  # this link; cloud metadata
    IPv4Network("172.16.0.0/12"),  # private
    IPv4Network("192.0.0.0/24"),  # protocol assignments; cloud metadata
    IPv4Network("192.0.2.0/24"),  # documentation
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv4Network("192.168.0.0/16"),  # private
    IPv4Network("198.18.0.0/15"),  # benchmarks
    IPv4Network("198.51.100.0/24"),  # documentation
    IPv4Network("203.0.113.0/24"),  # documentation
    IPv4Network("224.0.0.0/4"),  # multicast
    IPv4Network("240.0.0.0/4"),  # reserved, broadcast
    IPv4Network("168.63.129.16/32"),  # public by number, but a cloud answers its own machines there
]
GLOBAL_V6 = IPv6Network("2000::/3")  # all that is assigned to hosts
BLOCKED_V6 = [
    IPv6Network("2001::/23"),  # protocol assignments, Teredo
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2002::/16"),  # 6to4
    IPv6Network("3fff::/20"),  # documentation
]
IPV4_MAPPED = IPv6Network("::ffff:0:0/96")
NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: IPAddress) -> bool:
    """Whether an address belongs to a host on the public internet.

    IPv6 that carries an IPv4 address (mapped, NAT64) is judged by that; Teredo and 6to4 are never public.
    """
    if isinstance(address, IPv4Address):
        return not any(address in block for block in BLOCKED_V4)
    if address.scope_id is not None:
        return False
    if address in IPV4_MAPPED or address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in GLOBAL_V6 and not any(address in block for block in BLOCKED_V6)


async def resolve_host(host: str, port: int) -> list[str]:
    """The addresses the system finds for a host, best first; also for spellings such as `0x7f.1`.

    Raises OSError.
    """
    entries = await run_in_thread(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def are_all_allowed(addresses: list[str], allow: AddressFilter) -> bool:
    """Whether every address is allowed.

    A name with one address inside is not trusted with its other addresses either.
    """
    return bool(addresses) and all(allow(ip_address(address)) for address in addresses)
