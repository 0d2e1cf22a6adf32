"""Chooses the hits that the model reads, writes them in few tokens, and reads them back. Pure.

What a page says of itself is shown on one line, so that it can forge no hit: a hit is a line that begins with
its number, and its address on the next.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

import httpx

from tools.net.addresses import is_public
from tools.search.engine import Hit

MAX_HITS = 6
MAX_HITS_OF_HOST = 2
MAX_READ_HITS = 50  # of one answer
MAX_TITLE_CHARS = 90
MAX_EXCERPT_CHARS = 200
MAX_ADDRESS_CHARS = 250
MAX_RESULT_BYTES = 1300
"""UTF-8 bytes of all hits: under 500 tokens in every script, since those of many tokens take many bytes.

Dates and numbers in addresses take a token for each digit.
"""

NO_HITS = "Nothing was found. Try other words, or say so."
PARTIAL = "(partial: some search engines did not respond)"

_MAX_RAW_CHARS = 2000  # of a title or an excerpt that are looked at
_TAG = re.compile(r"<[^<>]{0,200}>")
_HIDDEN = re.compile("[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_HOST = re.compile(r"(?=.{4,253}$)(?:[a-z0-9_-]{1,63}\.)+[a-z][a-z0-9-]{1,62}")
_PRIVATE_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home", ".corp", ".arpa", ".test")
_SHOWN_HIT = re.compile(r"^(\d{1,2})\. .*\n(https?://\S+)$", re.MULTILINE)


def format_hits(hits: Iterable[Hit], *, first_number: int = 1, is_partial: bool = False) -> str:
    """The hits worth reading, each with its number; a sentence where there is none."""
    heads: list[str] = []
    excerpts: list[str] = []
    left_bytes = MAX_RESULT_BYTES
    for hit in _choose(hits):
        head = _format_head(hit, first_number + len(heads))
        if len(head.encode()) > left_bytes:
            break
        left_bytes -= len(head.encode())
        heads.append(head)
        excerpts.append(_clean(hit.excerpt)[:MAX_EXCERPT_CHARS])
    lines = []
    for position, head in enumerate(heads):
        lines.append(head)
        share = left_bytes // (len(heads) - position)
        excerpt = excerpts[position].encode()[:share].decode(errors="ignore").strip()
        if excerpt:
            lines.append(excerpt)
            left_bytes -= len(excerpt.encode())
    if not lines:
        lines.append(NO_HITS)
    if is_partial:
        lines.append(PARTIAL)
    return "\n".join(lines)


def parse_hits(result: str) -> Mapping[int, str]:
    """The addresses of a result that `format_hits` wrote, by their numbers."""
    return {int(match[1]): match[2] for match in _SHOWN_HIT.finditer(result)}


def _choose(hits: Iterable[Hit]) -> list[Hit]:
    """The first hits that may be shown, each page once, few of one host; their addresses in plain letters."""
    chosen: list[Hit] = []
    hosts = Counter[str]()
    seen = set[str]()
    for hit in list(hits)[:MAX_READ_HITS]:
        url = parse_public_url(hit.address)
        if url is None or len(chosen) == MAX_HITS:
            continue
        page = f"{url.host.removeprefix('www.')}{url.raw_path.decode().rstrip('/')}"
        if page in seen or hosts[url.host] == MAX_HITS_OF_HOST:
            continue
        seen.add(page)
        hosts[url.host] += 1
        chosen.append(Hit(hit.title, str(url), hit.excerpt, hit.date))
    return chosen


def parse_public_url(address: str) -> httpx.URL | None:
    """The web address of a public host, its host in ASCII (`xn--…`, as a look-alike shows itself); else None.

    Names are not looked up: that is judged when a page is opened.
    """
    if len(address) > MAX_ADDRESS_CHARS or _HIDDEN.search(address):
        return None
    try:
        url = httpx.URL(address.strip()).copy_with(fragment=None)
        host = url.raw_host.decode().lower()
        url = url.copy_with(host=host)
    except (httpx.InvalidURL, ValueError):
        return None
    if url.scheme not in ("http", "https") or url.userinfo or not _is_public_host(host):
        return None
    if re.search(r"[\s<>\"]", str(url)):
        return None
    return url


def _is_public_host(host: str) -> bool:
    try:
        return is_public(ip_address(host.strip("[]")))
    except ValueError:
        return _HOST.fullmatch(host) is not None and not host.endswith(_PRIVATE_ENDINGS)


def _format_head(hit: Hit, number: int) -> str:
    host = httpx.URL(hit.address).raw_host.decode()
    title = _clean(hit.title)[:MAX_TITLE_CHARS].strip() or "(no title)"
    date = _DATE.match(hit.date)
    dated_host = host if date is None else f"{host}, {date[0]}"
    return f"{number}. {title} — {dated_host}\n{hit.address}"


def _clean(text: str) -> str:
    """A text on one line, without tags, escapes and characters that nobody sees."""
    plain = html.unescape(_TAG.sub("", text[:_MAX_RAW_CHARS]))
    return " ".join(_HIDDEN.sub(" ", plain).split())
