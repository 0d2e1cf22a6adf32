"""Addresses of the web as they stand in texts, brought to one form in which two of them can be compared.
Pure.
"""

import html
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, urlsplit

MAX_URL_CHARS = 4000  # characters of an address
_PORTS = {"http": 80, "https": 443}
_URL_RUN = re.compile(r"[^\s<>\"“”„«»`]{4,}")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_OPENERS = "([{'*_~|=,;:"  # what may stand right before an address
_CLOSERS = ".,;:!?)]}'’*_~|…\\"  # and right behind it
_MAX_ENDS = 40  # places at which an address may end in one run of characters
_HOST = re.compile(r"[\w.-]+|\[[0-9a-f:.]+\]", re.IGNORECASE)
_HOST_START = re.compile(r"(?:[\w-]+\.)+[\w-]{2,}(?:[:/?#]|$)")
_ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_FORBIDDEN_CHARS = re.compile(r"[\s\\\x00-\x1f\x7f]")


def normalize_url(url: str) -> str | None:
    """The address without what makes no difference: scheme, case of the host, default port, fragment, way of
    escaping.

    None: it is no address of the web, or holds a name or a password.
    """
    url = url.strip()
    if not _SCHEME.match(url):
        if "://" in url or not _HOST_START.match(url):
            return None
        url = f"https://{url}"
    if len(url) > MAX_URL_CHARS or _FORBIDDEN_CHARS.search(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
        host = _normalize_host(parts.hostname or "")
    except ValueError:
        return None
    if not host or "@" in parts.netloc:
        return None
    where = host if port in {None, _PORTS[parts.scheme]} else f"{host}:{port}"
    query = f"?{_normalize_escapes(parts.query)}" if parts.query else ""
    path = _normalize_escapes(parts.path)
    return f"{where}{path.removesuffix('/')}{query}"


def extract_host(url: str) -> str | None:
    """The host of an address, in one form; None if it is none."""
    found = normalize_url(url)
    if found is None:
        return None
    return re.split(r"[/?]", found, maxsplit=1)[0]


def is_url_in_texts(url: str, texts: Iterable[str]) -> bool:
    """Whether one of these texts holds this very address, with nothing put to it and nothing left off."""
    wanted = normalize_url(url)
    return wanted is not None and any(wanted in _find_urls(text, wanted) for text in texts)


def is_url_prefix_in_text(url: str, text: str) -> bool:
    """Whether a text holds this address or a longer one that begins with it."""
    wanted = normalize_url(url)
    return wanted is not None and any(one.startswith(wanted) for one in _find_urls(text, wanted))


def _find_urls(text: str, normalized: str) -> Iterator[str]:
    """The addresses in a text that may be the wanted one."""
    host = re.split(r"[/?:]", normalized, maxsplit=1)[0]
    readings = {text, html.unescape(text), text.replace("\\/", "/")}
    for run in (found[0] for reading in readings for found in _URL_RUN.finditer(reading)):
        if host in run.lower() or not run.isascii():
            yield from (
                one for candidate in _list_candidates(run) if (one := normalize_url(candidate)) is not None
            )


def _list_candidates(run: str) -> Iterator[str]:
    """What in a run of characters may be an address: words around it are cut off at signs that seldom belong
    to one.
    """
    begins = [found.start() for found in _SCHEME.finditer(run)]
    for begin in (*begins[:_MAX_ENDS], *_find_bare_starts(run)):
        rest = run[begin:]
        ends = [at for at, sign in enumerate(rest) if sign in _CLOSERS]
        for end in (len(rest), *ends[:_MAX_ENDS], *ends[_MAX_ENDS:][-_MAX_ENDS:]):
            yield rest[:end]


def _find_bare_starts(run: str) -> list[int]:
    """Where addresses without a scheme may begin."""
    after = [at + 1 for at, sign in enumerate(run) if sign in _OPENERS]
    return [0, *after[:_MAX_ENDS]]


def _normalize_host(name: str) -> str:
    """A host as the wire has it. Raises ValueError for one that cannot be."""
    name = name.rstrip(".").lower()
    if ":" in name:
        return f"[{name}]"
    found = name if name.isascii() else name.encode("idna").decode()
    if not _HOST.fullmatch(found):
        raise ValueError("no host")
    return found


def _normalize_escapes(text: str) -> str:
    """Escaped where it must be, nowhere else, in capital letters."""
    escaped = quote(text, safe="%/:?#[]@!$&'()*+,;=-._~|^{}`")
    return _ESCAPED.sub(_unescape_unreserved, escaped)


def _unescape_unreserved(escape: re.Match[str]) -> str:
    sign = chr(int(escape[0][1:], 16))
    if sign in _UNRESERVED:
        return sign
    return escape[0].upper()
