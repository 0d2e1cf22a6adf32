"""Where the page may be reached: on this machine, and at ADMIN_URL behind TLS. Pure.

The Host of each request is checked, so that no other website can lead a browser here under its own name.
"""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.admin.error_pages import PageRefused


@dataclass(frozen=True, slots=True)
class PageAddress:
    """`public_url` is an origin such as `https://bot.example.com`; None: this machine alone."""

    public_url: str | None

    def check(self, host: str, scheme: str) -> str:
        """Return the origin under which a request came. Raises PageRefused for any other.

        `host` is its Host, `scheme` what the browser speaks, as a proxy in front says.
        """
        if is_loopback(host):
            return f"{scheme}://{host.lower()}"
        if self.public_url is None:
            raise PageRefused(
                "This page is served on its own machine alone. To reach it from elsewhere, put it behind TLS "
                "and set ADMIN_URL to its address there.",
                status=421,
            )
        if host.lower() != urlsplit(self.public_url).netloc.lower():
            raise PageRefused("This page has another address; ADMIN_URL names it.", status=421)
        if scheme != "https":
            raise PageRefused(
                "This came over plain HTTP, where anybody on the way can read it. Use https://, and let the "
                "proxy in front send X-Forwarded-Proto.",
                status=403,
            )
        return self.public_url.lower()


def is_loopback(host: str) -> bool:
    """Whether a Host names this machine, with or without a port."""
    try:
        address = urlsplit(f"//{host}")
        name = address.hostname or ""
        _ = address.port  # raises ValueError for a port that there is not
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
