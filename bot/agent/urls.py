"""Finds URLs in texts and normalizes them so that two of them can be compared. Pure."""

import html
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from urllib.parse import quote, unquote, urlsplit

MAX_URL_CHARS = 4000
_PORTS = {"http": 80, "https": 443}
_URL_RUN = re.compile(r"[^\s<>\"“”„«»`]{4,}")
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*://[^\s\\]{1,500}$", re.IGNORECASE)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_OPENERS = "([{'*_~|=,;:"  # what may stand directly before a URL
_CLOSERS = ".,;:!?)]}'’*_~|…\\"  # and directly after it
_MAX_ENDS = 40  # positions tried as ends of a URL in one run of characters
_MAX_COST = 250_000  # characters looked at in one text, about 20 ms on the event loop
_ESCAPING_WEIGHT = 5  # times as long as others take characters that are escaped
_CANDIDATE_COST = 100  # characters that take as long as a candidate does, however short
_HOST = re.compile(r"[\w.-]+|\[[0-9a-f:.]+\]", re.IGNORECASE)
_HOST_START = re.compile(r"(?:[\w-]+\.)+[\w-]{2,}(?:[:/?#]|$)")
_HOST_SIGN = re.compile(r"[.。．｡]\w|\[")  # in each host
_HOST_START_CHAR = re.compile(r"[\w-]")
_ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_FORBIDDEN_CHARS = re.compile(r"[\s\\\x00-\x1f\x7f]")


def normalize_url(url: str) -> str | None:
    """The URL without what makes no difference: scheme, host case, default port, fragment, escaping.

    None: it is no web URL, or it contains a user name or a password.
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
    normalized = host
    if port not in {None, _PORTS[parts.scheme]}:
        normalized += f":{port}"
    normalized += _normalize_escapes(parts.path).removesuffix("/")
    if parts.query:
        normalized += f"?{_normalize_escapes(parts.query)}"
    return normalized


def extract_host(url: str) -> str | None:
    """The normalized host of a URL, with its port unless that is the default; None if it is no URL."""
    normalized = normalize_url(url)
    if normalized is None:
        return None
    return re.split(r"[/?]", normalized, maxsplit=1)[0]


class _TooCostly(Exception):
    """A text has so much that may be the URL that it would hold up the event loop."""


def find_urls_in_text(urls: Iterable[str], text: str) -> set[str]:
    """Those of `urls` that the text contains exactly, with nothing added and nothing left off.

    A text that is made so that finding out takes too long contains none.
    """
    wanted = {url: normalized for url in urls if (normalized := normalize_url(url)) is not None}
    if not wanted:
        return set()
    try:
        found = set(_find_urls(text, set(wanted.values())))
    except _TooCostly:
        return set()
    return {url for url, normalized in wanted.items() if normalized in found}


def is_address_in_text(address: str, text: str) -> bool:
    """Whether the text contains exactly this address of another scheme than the web's."""
    if not _OTHER_SCHEME.match(address):
        return False
    marks = _OPENERS + _CLOSERS
    bare = address.strip(marks)
    return bare in text and any(run.strip(marks) == bare for run in _URL_RUN.findall(text))


def is_url_prefix_in_text(url: str, text: str) -> bool:
    """Whether a text contains this URL or a longer one that begins with it, or finding out takes too long."""
    normalized = normalize_url(url)
    if normalized is None:
        return False
    try:
        return any(text_url.startswith(normalized) for text_url in _find_urls(text, {normalized}))
    except _TooCostly:
        return True


def _find_urls(text: str, wanted: Collection[str]) -> Iterator[str]:
    """The normalized URLs in a text that may be among `wanted`; raises _TooCostly.

    Those that cannot have the host, path and query of one are skipped.
    """
    needed_by_host: dict[str, list[list[str]]] = {}
    for normalized in wanted:
        host = re.split(r"[/?:]", normalized, maxsplit=1)[0]
        needed_by_host.setdefault(host, []).append(_list_needed(normalized))
    cost = 0
    readings = {text, html.unescape(text), text.replace("\\/", "/")}
    for reading in readings:
        for run in _list_runs(reading, needed_by_host):
            for candidate in _list_candidates(run):
                weight = 1 if candidate.isascii() else _ESCAPING_WEIGHT
                cost += weight * len(candidate) + _CANDIDATE_COST
                if cost > _MAX_COST:
                    raise _TooCostly
                if found := normalize_url(candidate):
                    yield found


def _list_runs(text: str, needed_by_host: Mapping[str, list[list[str]]]) -> Iterator[str]:
    """The runs of characters that may hold one of the hosts, with what is needed after it."""
    lowered = text.lower()
    hosts = [host for host in needed_by_host if host in lowered]
    if not hosts and text.isascii():
        return
    for match in _URL_RUN.finditer(text):
        run = match[0]
        lowered_run = run.lower()
        possible: Collection[str] = [host for host in hosts if host in lowered_run]
        if not run.isascii() and _HOST_SIGN.search(run):
            possible = needed_by_host  # a host may be written in other letters
        needed = chain.from_iterable(needed_by_host[host] for host in possible)
        if possible and _has_any(unquote(run), needed):
            yield run


def _list_needed(normalized: str) -> list[str]:
    """Path and query, as a URL has them that is the same; none where escapes may be written differently."""
    path = re.sub(r"^[^/?]*", "", normalized)
    if "%" in path:
        return []
    return [part for part in path.split("?", 1) if part]


def _has_any(text: str, alternatives: Iterable[Iterable[str]]) -> bool:
    """Whether the text has all parts of one alternative."""
    return any(all(part in text for part in parts) for parts in alternatives)


def _list_candidates(run: str) -> Iterator[str]:
    """What in a run of characters may be a URL: cut off at characters that seldom belong to one."""
    scheme_starts = [match.start() for match in _SCHEME.finditer(run)]
    for start in dict.fromkeys((*scheme_starts[:_MAX_ENDS], *_find_bare_starts(run))):
        rest = run[start : start + MAX_URL_CHARS + 1]  # a longer one is no URL
        if not (_SCHEME.match(rest) or _HOST_START_CHAR.match(rest)):
            continue
        ends = [index for index, char in enumerate(rest) if char in _CLOSERS]
        for end in (len(rest), *ends[:_MAX_ENDS], *ends[_MAX_ENDS:][-_MAX_ENDS:]):
            yield rest[:end]


def _find_bare_starts(run: str) -> list[int]:
    """Positions at which URLs without a scheme may begin."""
    starts = [index + 1 for index, char in enumerate(run) if char in _OPENERS]
    return [0, *starts[:_MAX_ENDS]]


def _normalize_host(name: str) -> str:
    """A host in lower case and IDNA. Raises ValueError for one that cannot exist."""
    name = name.rstrip(".").lower()
    if ":" in name:
        return f"[{name}]"
    if not name.isascii():
        name = name.encode("idna").decode()
    if not _HOST.fullmatch(name):
        raise ValueError("no host")
    return name


def _normalize_escapes(text: str) -> str:
    """The text escaped where it must be and nowhere else, in capital letters."""
    escaped = quote(text, safe="%/:?#[]@!$&'()*+,;=-._~|^{}`")
    return _ESCAPED.sub(_unescape_unreserved, escaped)


def _unescape_unreserved(escape: re.Match[str]) -> str:
    char = chr(int(escape[0][1:], 16))
    if char in _UNRESERVED:
        return char
    return escape[0].upper()
