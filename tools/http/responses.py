"""What a model reads of an HTTP answer: JSON written compactly, other text as it is, a refusal as an error.
Pure.
"""

import json
from email.message import Message

from tools.base import ToolError
from tools.http.service import BYTES, Answer

EXCERPT = 400  # characters of an answer that says what was wrong
TOLD = ("content-type", "content-length", "last-modified", "etag", "location")


def told(answer: Answer, name: str, method: str) -> str:
    """The answer as text. Raises ToolError, with status and an excerpt, when the service `name` refused."""
    text = _text(answer)
    status = f"{answer.status} {answer.reason}".strip()
    if not 200 <= answer.status < 300:
        excerpt = " ".join((text or "").split())
        excerpt = f"{excerpt[:EXCERPT]}…" if len(excerpt) > EXCERPT else excerpt
        raise ToolError(f"{name} answered {status}" + (f": {excerpt}" if excerpt else "."))
    if method == "HEAD":
        return "\n".join(
            [status, *(f"{each}: {answer.headers[each]}" for each in TOLD if each in answer.headers)]
        )
    if text == "" or not answer.body:
        return f"Done ({status}). The answer is empty."
    if text is None:
        kind = _content(answer)[0] or "of an unknown kind"
        return f"Done ({status}). The answer is a file ({kind[:60]}, {len(answer.body)} bytes), which cannot be read."
    if answer.whole:
        return text
    return f"{text}\n\n[What is beyond {BYTES // 1024 // 1024} MB of the answer is left out]"


def _text(answer: Answer) -> str | None:
    """The body as text; None if it is none."""
    kind, charset = _content(answer)
    if kind == "application/json" or kind.endswith("+json"):
        return _compact(answer.body, charset)
    is_text = kind.startswith("text/") or kind.endswith(
        ("xml", "yaml", "javascript", "x-www-form-urlencoded")
    )
    if not is_text and kind not in ("", "application/octet-stream"):
        return None
    if not is_text and (b"\0" in answer.body or not _is_utf8(answer.body)):
        return None
    if not is_text:
        return _compact(answer.body, charset)
    return _decoded(answer.body, charset).strip()


def _content(answer: Answer) -> tuple[str, str]:
    header = Message()
    header["content-type"] = answer.headers.get("content-type", "")
    named = answer.headers.get("content-type", "")
    return (header.get_content_type() if named else "", header.get_content_charset() or "")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(body) - 4 and len(body) >= BYTES  # only cut in the middle of a letter
    return True


def _decoded(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset or "utf-8-sig", "replace")
    except (LookupError, ValueError):  # no such charset, or one that is no charset of text
        return body.decode("utf-8-sig", "replace")


def _compact(body: bytes, charset: str) -> str:
    text = _decoded(body, charset).strip()
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):  # cut, broken, or built to be neither
        return text
