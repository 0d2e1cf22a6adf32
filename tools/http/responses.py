"""What a model reads of an HTTP answer: JSON written compactly, other text as it is, a refusal as an error.
Pure.
"""

import json
from email.message import Message

from tools.base import ToolError
from tools.http.service import MAX_RESPONSE_BYTES, HttpResponse

MAX_EXCERPT_CHARS = 400  # characters of an answer that says what was wrong
SHOWN_HEADERS = ("content-type", "content-length", "last-modified", "etag", "location")


def render_response(response: HttpResponse, service_name: str, method: str) -> str:
    """The answer as text. Raises ToolError, with status and an excerpt, when the service `name` refused."""
    text = _body_text(response)
    status = f"{response.status} {response.reason}".strip()
    if not 200 <= response.status < 300:
        excerpt = " ".join((text or "").split())
        excerpt = f"{excerpt[:MAX_EXCERPT_CHARS]}…" if len(excerpt) > MAX_EXCERPT_CHARS else excerpt
        raise ToolError(f"{service_name} answered {status}" + (f": {excerpt}" if excerpt else "."))
    if method == "HEAD":
        return "\n".join(
            [
                status,
                *(f"{each}: {response.headers[each]}" for each in SHOWN_HEADERS if each in response.headers),
            ]
        )
    if text == "" or not response.body:
        return f"Done ({status}). The answer is empty."
    if text is None:
        kind = _content_type(response)[0] or "of an unknown kind"
        return f"Done ({status}). The answer is a file ({kind[:60]}, {len(response.body)} bytes), which cannot be read."
    if response.is_complete:
        return text
    return f"{text}\n\n[What is beyond {MAX_RESPONSE_BYTES // 1024 // 1024} MB of the answer is left out]"


def _body_text(response: HttpResponse) -> str | None:
    """The body as text; None if it is none."""
    kind, charset = _content_type(response)
    if kind == "application/json" or kind.endswith("+json"):
        return _compact_json(response.body, charset)
    is_text = kind.startswith("text/") or kind.endswith(
        ("xml", "yaml", "javascript", "x-www-form-urlencoded")
    )
    if not is_text and kind not in ("", "application/octet-stream"):
        return None
    if not is_text and (b"\0" in response.body or not _is_utf8(response.body)):
        return None
    if not is_text:
        return _compact_json(response.body, charset)
    return _decode(response.body, charset).strip()


def _content_type(response: HttpResponse) -> tuple[str, str]:
    header = Message()
    header["content-type"] = response.headers.get("content-type", "")
    named = response.headers.get("content-type", "")
    return (header.get_content_type() if named else "", header.get_content_charset() or "")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return (
            error.start > len(body) - 4 and len(body) >= MAX_RESPONSE_BYTES
        )  # only cut in the middle of a letter
    return True


def _decode(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset or "utf-8-sig", "replace")
    except (LookupError, ValueError):  # no such charset, or one that is no charset of text
        return body.decode("utf-8-sig", "replace")


def _compact_json(body: bytes, charset: str) -> str:
    text = _decode(body, charset).strip()
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):  # cut, broken, or built to be neither
        return text
