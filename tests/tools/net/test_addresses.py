"""Only addresses of the public internet are opened, however they are written."""

from ipaddress import ip_address

import pytest

from tools.base import ToolError
from tools.net.addresses import are_all_allowed, is_public, resolve_host
from tools.net.pages import PageReader

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
# fmt: off
PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255",
    "127.0.0.1", "127.1.2.3", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "168.63.129.16",
    "::", "::1", "::7f00:1", "::10.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "100::1", "2001::1",
    "2001:0:808:808::1", "2001:db8::1", "2001:10::1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2002:808:808::",
    "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1",
    "ff02::1", "ff0e::1", "4000::1", "e000::1",
]
# fmt: on


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address):
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", PRIVATE)
def test_every_other_address_is_private(address):
    assert not is_public(ip_address(address))


def test_a_name_is_trusted_only_with_all_its_addresses():
    assert are_all_allowed(["8.8.8.8", "2606:2800:220:1::1"], is_public)
    assert not are_all_allowed(["8.8.8.8", "127.0.0.1"], is_public)
    assert not are_all_allowed([], is_public)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://localhost./",
        "http://LOCALHOST/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://017700000001/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[fe80::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://①②⑦.⓪.⓪.①/",
        "https://10.0.0.1:8443/",
    ],
)
async def test_no_spelling_of_a_private_address_is_opened(url):
    """With the real check and the system's own lookup, which accepts numbers in every old form."""
    with pytest.raises(
        ToolError, match=r"not on the public internet|No host is called|That is no web address"
    ):
        await PageReader().read(url, 100)


async def test_the_system_reads_odd_spellings_as_loopback():
    assert await resolve_host("0x7f.1", 80) == ["127.0.0.1"]


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_with_a_private_address_is_not_opened(address):
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34", address]

    with pytest.raises(ToolError, match=r"harmless\.example is not on the public internet"):
        await PageReader(resolve=resolve).read("https://harmless.example/", 100)
