"""Renders an HTTP response for the model. Pure.

JSON is written compactly, other text as it is; a refusal becomes an error.
"""

import json
from email.message import Message

from tools.base import ToolError
from tools.http.service import MAX_RESPONSE_BYTES, HttpResponse

MAX_EXCERPT_CHARS = 400  # of an error response
SHOWN_HEADERS = ("content-type", "content-length", "last-modified", "etag", "location")


def render_response(response: HttpResponse, service_name: str, method: str) -> str:
    """The response as text.

    Raises ToolError, with status and an excerpt, when the service `service_name` refused.
    """
    text = _body_text(response)
    status = f"{response.status} {response.reason}".strip()
    if not 200 <= response.status < 300:
        excerpt = _excerpt(text)
        if excerpt:
            raise ToolError(f"{service_name} answered {status}: {excerpt}")
        raise ToolError(f"{service_name} answered {status}.")
    if method == "HEAD":
        headers = [f"{name}: {response.headers[name]}" for name in SHOWN_HEADERS if name in response.headers]
        return "\n".join([status, *headers])
    if text == "" or not response.body:
        return f"Done ({status}). The answer is empty."
    if text is None:
        kind = _content_type(response)[0] or "of an unknown kind"
        description = f"{kind[:60]}, {len(response.body)} bytes"
        return f"Done ({status}). The answer is a file ({description}), which cannot be read."
    if response.is_complete:
        return text
    return f"{text}\n\n[What is beyond {MAX_RESPONSE_BYTES // 1024 // 1024} MB of the answer is left out]"


def _excerpt(text: str | None) -> str:
    excerpt = " ".join((text or "").split())
    if len(excerpt) > MAX_EXCERPT_CHARS:
        return f"{excerpt[:MAX_EXCERPT_CHARS]}…"
    return excerpt


def _body_text(response: HttpResponse) -> str | None:
    """The body as text; None if it is not text."""
    kind, charset = _content_type(response)
    if kind == "application/json" or kind.endswith("+json"):
        return _compact_json(response.body, charset)
    is_text = kind.startswith("text/") or kind.endswith(
        ("xml", "yaml", "javascript", "x-www-form-urlencoded")
    )
    if is_text:
        return _decode(response.body, charset).strip()
    if kind not in ("", "application/octet-stream"):
        return None
    if b"\0" in response.body or not _is_utf8(response.body):
        return None
    return _compact_json(response.body, charset)


def _content_type(response: HttpResponse) -> tuple[str, str]:
    """Media type and charset, each empty when the service did not say."""
    content_type = response.headers.get("content-type", "")
    if not content_type:
        return "", ""
    header = Message()
    header["content-type"] = content_type
    return header.get_content_type(), header.get_content_charset() or ""


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        # Still UTF-8 when only the end of what was read is cut in the middle of a letter.
        return error.start > len(body) - 4 and len(body) >= MAX_RESPONSE_BYTES
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
    except (ValueError, RecursionError):  # cut, broken, or built to be nested too deep
        return text
