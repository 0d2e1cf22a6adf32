"""Addresses of the web as they stand in texts, brought to one form in which two of them can be compared.
Pure.
"""

import html
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, urlsplit

LONGEST = 4000  # characters of an address
_PORTS = {"http": 80, "https": 443}
_RUN = re.compile(r"[^\s<>\"“”„«»`]{4,}")
_BEGIN = re.compile(r"https?://", re.IGNORECASE)
_OPENERS = "([{'*_~|=,;:"  # what may stand right before an address
_CLOSERS = ".,;:!?)]}'’*_~|…\\"  # and right behind it
_ENDS = 40  # places at which an address may end in one run of characters
_HOST = re.compile(r"[\w.-]+|\[[0-9a-f:.]+\]", re.IGNORECASE)
_BARE = re.compile(r"(?:[\w-]+\.)+[\w-]{2,}(?:[:/?#]|$)")
_ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_UNFIT = re.compile(r"[\s\\\x00-\x1f\x7f]")


def normal(address: str) -> str | None:
    """The address without what makes no difference: scheme, case of the host, default port, fragment, way of
    escaping.

    None: it is no address of the web, or holds a name or a password.
    """
    address = address.strip()
    if not _BEGIN.match(address):
        if "://" in address or not _BARE.match(address):
            return None
        address = f"https://{address}"
    if len(address) > LONGEST or _UNFIT.search(address):
        return None
    try:
        parts = urlsplit(address)
        port = parts.port
        host = _host(parts.hostname or "")
    except ValueError:
        return None
    if not host or "@" in parts.netloc:
        return None
    where = host if port in {None, _PORTS[parts.scheme]} else f"{host}:{port}"
    query = f"?{_escaped(parts.query)}" if parts.query else ""
    path = _escaped(parts.path)
    return f"{where}{path.removesuffix('/')}{query}"


def host_of(address: str) -> str | None:
    """The host of an address, in one form; None if it is none."""
    found = normal(address)
    if found is None:
        return None
    return re.split(r"[/?]", found, maxsplit=1)[0]


def stands_in(address: str, texts: Iterable[str]) -> bool:
    """Whether one of these texts holds this very address, with nothing put to it and nothing left off."""
    wanted = normal(address)
    return wanted is not None and any(wanted in _normals(text, wanted) for text in texts)


def is_begun_in(address: str, text: str) -> bool:
    """Whether a text holds this address or a longer one that begins with it."""
    wanted = normal(address)
    return wanted is not None and any(one.startswith(wanted) for one in _normals(text, wanted))


def _normals(text: str, wanted: str) -> Iterator[str]:
    """The addresses in a text that may be the wanted one."""
    host = re.split(r"[/?:]", wanted, maxsplit=1)[0]
    readings = {text, html.unescape(text), text.replace("\\/", "/")}
    for run in (found[0] for reading in readings for found in _RUN.finditer(reading)):
        if host in run.lower() or not run.isascii():
            yield from (one for candidate in _candidates(run) if (one := normal(candidate)) is not None)


def _candidates(run: str) -> Iterator[str]:
    """What in a run of characters may be an address: words around it are cut off at signs that seldom belong
    to one.
    """
    begins = [found.start() for found in _BEGIN.finditer(run)]
    for begin in (*begins[:_ENDS], *_bare(run)):
        rest = run[begin:]
        ends = [at for at, sign in enumerate(rest) if sign in _CLOSERS]
        for end in (len(rest), *ends[:_ENDS], *ends[_ENDS:][-_ENDS:]):
            yield rest[:end]


def _bare(run: str) -> list[int]:
    """Where addresses without a scheme may begin."""
    after = [at + 1 for at, sign in enumerate(run) if sign in _OPENERS]
    return [0, *after[:_ENDS]]


def _host(name: str) -> str:
    """A host as the wire has it. Raises ValueError for one that cannot be."""
    name = name.rstrip(".").lower()
    if ":" in name:
        return f"[{name}]"
    found = name if name.isascii() else name.encode("idna").decode()
    if not _HOST.fullmatch(found):
        raise ValueError("no host")
    return found


def _escaped(text: str) -> str:
    """Escaped where it must be, nowhere else, in capital letters."""
    escaped = quote(text, safe="%/:?#[]@!$&'()*+,;=-._~|^{}`")
    return _ESCAPED.sub(_sign, escaped)


def _sign(escape: re.Match[str]) -> str:
    sign = chr(int(escape[0][1:], 16))
    if sign in _UNRESERVED:
        return sign
    return escape[0].upper()
