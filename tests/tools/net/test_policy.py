"""Hosts are accepted by their name, or by their name and port."""

import httpx

from tools.net.policy import NetworkPolicy


def test_an_ipv6_host_is_named_with_brackets():
    url = httpx.URL("http://[fd00::1]:8080/x")
    for private in ("fd00::1", "[fd00::1]", "[fd00::1]:8080"):
        assert NetworkPolicy(private=frozenset({private})).is_allowed_by_name(url)
    assert not NetworkPolicy(private=frozenset({"[fd00::1]:80", "fd00::2"})).is_allowed_by_name(url)
