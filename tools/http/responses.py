"""Renders an HTTP response for the model. Pure.

JSON is written compactly, other text and very long JSON as it is; a refusal becomes an error.
"""

import json
import re
from email.message import Message

import httpx

from tools.base import File, Picture, ToolError
from tools.http.service import MAX_RESPONSE_BYTES, HttpResponse
from tools.http.styles import to_compact_json
from tools.net.bodies import HEADER_ERRORS, MAX_HEADER_CHARS, parse_content_type
from tools.net.readable import decode_text
from tools.results import find_picture_type
from tools.safety.injection import neutralize
from tools.safety.plain_text import cut_text

MAX_EXCERPT_CHARS = 400  # of an error response
MAX_WAIT_CHARS = 40  # of a Retry-After, seconds or a date
MAX_LINK_HEADER_CHARS = 4000
MAX_LINK_CHARS = 300  # of what leads to the next page
PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
JSON_LINES_TYPES = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json-lines",
)
UNKNOWN_TYPES = ("", "application/octet-stream")
TEXT_ENDINGS = ("xml", "yaml", "javascript", "x-www-form-urlencoded")
_NEXT_LINK = re.compile(r"<([^<>]{1,2000})>[^<>]{0,200};\s*rel=\"?next\"?", re.IGNORECASE)
MAX_PARSED_CHARS = 128 * 1024  # of JSON: 2 MB take the event loop up to 0.3 s
MAX_PARSED_LINES = 2000  # of JSON: 64 KB of short ones take as long
SHOWN_HEADERS = ("content-type", "content-length", "last-modified", "etag", "location")


def render_response(response: HttpResponse, service_name: str, method: str) -> str:
    """The response as text.

    Raises ToolError, with status and an excerpt, when the service `service_name` refused.
    """
    text = _body_text(response)
    status = f"{response.status} {response.reason}".strip()
    if not is_success(response):
        excerpt = cut_text(" ".join((text or "").split()), MAX_EXCERPT_CHARS)
        ending = f": {excerpt}" if excerpt else "."
        raise ToolError(f"{service_name} answered {status}{ending}{_format_retry(response)}")
    if method == "HEAD":
        headers = [f"{name}: {response.headers[name]}" for name in SHOWN_HEADERS if name in response.headers]
        return "\n".join([status, *headers])
    if text == "" or not response.body:
        return f"Done ({status}). The answer is empty."
    if text is None:
        kind = _content_type(response)[0] or "of an unknown kind"
        description = f"{kind[:60]}, {len(response.body)} bytes"
        return f"Done ({status}). The answer is a file ({description}), which cannot be read."
    text += _format_next_page(response)
    if response.is_complete:
        return text
    return f"{text}\n\n[What is beyond {MAX_RESPONSE_BYTES // 1024 // 1024} MB of the answer is left out]"


def is_success(response: HttpResponse) -> bool:
    """Whether the service did what was asked."""
    return 200 <= response.status < 300


def find_picture(response: HttpResponse) -> Picture | None:
    """The picture that the service answered with, if it is a whole one."""
    kind: str | None = _content_type(response)[0]
    if kind not in PICTURE_TYPES:
        kind = find_picture_type(response.body)
    if kind is None or not is_success(response) or not response.is_complete:
        return None
    return Picture(kind, response.body) if response.body else None


def find_file(response: HttpResponse) -> File | None:
    """The whole file that the service answered with: a picture, what is no text, or is meant to be saved."""
    if not response.body or not is_success(response) or not response.is_complete:
        return None
    is_attachment, name = _read_disposition(response.headers.get("content-disposition", ""))
    kind = _content_type(response)[0]
    is_read = _is_text(response) and not kind.startswith("image/")
    if is_read and not is_attachment:
        return None
    name = name or httpx.URL(response.address).path.rpartition("/")[2]
    return File(name, response.body, media_type=find_picture_type(response.body) or kind)


def _read_disposition(disposition: str) -> tuple[bool, str]:
    """Whether an answer is meant to be saved, and the name for that; "" where it cannot be read."""
    header = Message()
    header["content-disposition"] = disposition[:MAX_HEADER_CHARS]
    try:
        return header.get_content_disposition() == "attachment", header.get_filename() or ""
    except HEADER_ERRORS:
        return disposition.lower().startswith("attachment"), ""


def find_page_charset(response: HttpResponse) -> str | None:
    """The charset of a page in HTML, empty when it is not said; None for anything else."""
    kind, charset = _content_type(response)
    if kind in ("text/html", "application/xhtml+xml") and is_success(response) and response.body:
        return charset
    return None


def _format_retry(response: HttpResponse) -> str:
    """When a refused call may be made again, as far as the service says."""
    wait = response.headers.get("retry-after", "").strip()
    if not wait or len(wait) > MAX_WAIT_CHARS or not wait.isprintable():
        return ""
    unit = " seconds" if wait.isdecimal() else ""
    return f" (Try again after {wait}{unit}.)"


def _format_next_page(response: HttpResponse) -> str:
    """Which arguments lead to the next page, from the header Link; empty if there is none."""
    match = _NEXT_LINK.search(response.headers.get("link", "")[:MAX_LINK_HEADER_CHARS])
    if match is None:
        return ""
    try:
        here = httpx.URL(response.address)
        next_url = here.join(match[1])
    except (httpx.InvalidURL, ValueError):
        return ""
    changed = [
        f"{name}={value}"
        for name, value in next_url.params.multi_items()
        if value not in here.params.get_list(name)
    ]
    words = neutralize(", ".join(changed) or str(next_url))
    return f"\n\n[There is more: the next page has {words[:MAX_LINK_CHARS]}]"


def _body_text(response: HttpResponse) -> str | None:
    """The body as text; None if it is not text."""
    if not _is_text(response):
        return None
    kind, charset = _content_type(response)
    text = decode_text(response.body, charset).strip()
    if kind in JSON_LINES_TYPES:
        return _compact_lines(text)
    if _is_json(kind) or kind in UNKNOWN_TYPES:
        return _compact_json(text)
    return text


def _is_text(response: HttpResponse) -> bool:
    if find_picture_type(response.body) is not None:  # services say application/json of all they send
        return False
    kind, _ = _content_type(response)
    if kind in UNKNOWN_TYPES:
        return b"\0" not in response.body and _is_utf8(response.body)
    return (
        kind.startswith("text/") or _is_json(kind) or kind in JSON_LINES_TYPES or kind.endswith(TEXT_ENDINGS)
    )


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _content_type(response: HttpResponse) -> tuple[str, str]:
    return parse_content_type(response.headers.get("content-type", ""))


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        # Still UTF-8 when only the end of what was read is cut in the middle of a letter.
        return error.start > len(body) - 4 and len(body) >= MAX_RESPONSE_BYTES
    return True


def _compact_lines(text: str) -> str:
    lines = text.split("\n")
    if len(text) > MAX_PARSED_CHARS or len(lines) > MAX_PARSED_LINES:
        return text
    return "\n".join(map(_compact_json, lines))


def _compact_json(text: str) -> str:
    if len(text) > MAX_PARSED_CHARS:
        return text
    try:
        return to_compact_json(json.loads(text))
    except (ValueError, RecursionError):  # cut, broken, or built to be nested too deep
        return text
