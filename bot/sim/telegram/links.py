"""Checks addresses in links and buttons as TDLib does: what they become, and why others are refused. Pure."""

import ipaddress
import re
from dataclasses import dataclass

_HOST_CHARACTERS = re.compile(r"(?:[A-Za-z0-9.\-_!$,~*'();&+=\u0080-\U0010ffff]|%[0-9a-fA-F]{2})*")
_USER_CHARACTERS = re.compile(r"(?:[A-Za-z0-9.\-_!$,~*'();&+=:\u0080-\U0010ffff]|%[0-9a-fA-F]{2})*")
_BROKEN_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")
_INTERNAL_HOST = re.compile(r"[A-Za-z0-9\-_]*")
_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x20]")


class LinkInvalid(Exception):
    """The reason why an address is no link, in Telegram's words."""


@dataclass(frozen=True, slots=True)
class _Url:
    scheme: str
    user: str
    host: str
    port: int  # 0 when none was written
    rest: str  # path, query and fragment, beginning with a slash

    @property
    def is_ipv6(self) -> bool:
        return self.host.startswith("[") and self.host.endswith("]")

    def __str__(self) -> str:
        user = self.user + "@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{user}{self.host}{port}{self.rest}"


def check_link(url: str) -> str:
    """The address as Telegram stores it; raises LinkInvalid with the reason."""
    for scheme in ("tg", "ton", "tonsite"):
        if url.lower().startswith(scheme + ":"):
            rest = url[len(scheme) + 1 :]
            return _check_internal_link(scheme, rest.removeprefix("//"))
    address = _parse_url(url)
    if "." not in address.host and not address.is_ipv6:
        raise LinkInvalid("Wrong HTTP URL")
    return str(address)


def _check_internal_link(scheme: str, link: str) -> str:
    address = _parse_url(link)
    plain = address.scheme == "http" and not address.user and not address.port and not address.is_ipv6
    if not plain or link.lower().startswith("http://"):
        raise LinkInvalid(f"Wrong {scheme} URL")
    if scheme != "tonsite" and not _INTERNAL_HOST.fullmatch(address.host):
        raise LinkInvalid("Unallowed characters in URL host")
    rest = address.rest[1:] if address.rest.startswith("/?") else address.rest
    return f"{scheme}://{address.host}{rest}"


def _parse_url(url: str) -> _Url:
    scheme = "http"
    after = url
    if written := re.match(r"([^:/?#@\[\]]*)://", url):
        scheme = written[1].lower()
        after = url[written.end() :]
        if scheme not in ("http", "https"):
            raise LinkInvalid("Unsupported URL protocol")
    authority = re.split(r"[/?#]", after, maxsplit=1)[0]
    place, port = _split_port(authority)
    user, _, host = place.rpartition("@")
    _check_host(user, host)
    rest = after[len(authority) :].rstrip("\x00\t\n\v\f\r ") or "/"
    rest = rest if rest.startswith("/") else "/" + rest
    return _Url(scheme, user, host.lower(), port, _UNSAFE_CHARACTERS.sub(lambda c: f"%{ord(c[0]):02X}", rest))


def _split_port(authority: str) -> tuple[str, int]:
    written = re.search(r"(?<=.):([^:\]@]*)$", authority, re.DOTALL)
    if written is None:
        return authority, 0
    digits = written[1]
    if not re.fullmatch(r"-?[0-9]+", digits) or not 0 < int(digits) <= 65535:
        raise LinkInvalid("Wrong port number specified in the URL")
    return authority[: written.start()], int(digits)


def _check_host(user: str, host: str) -> None:
    if host.startswith("[") and host.endswith("]"):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise LinkInvalid("Wrong IPv6 address specified in the URL") from None
        return  # before a number in brackets TDLib lets any user stand
    if not host:
        raise LinkInvalid("URL host is empty")
    if host == ".":
        raise LinkInvalid("Host is invalid")
    _check_characters(host, "host", _HOST_CHARACTERS)
    _check_characters(user, "userinfo", _USER_CHARACTERS)


def _check_characters(part: str, name: str, allowed: re.Pattern[str]) -> None:
    if allowed.fullmatch(part):
        return
    allowed_prefix = allowed.match(part)
    first_bad = allowed_prefix.end() if allowed_prefix else 0
    if _BROKEN_PERCENT.match(part, first_bad):
        raise LinkInvalid(f"Wrong percent-encoded symbol in URL {name}")
    raise LinkInvalid(f"Disallowed character in URL {name}")
