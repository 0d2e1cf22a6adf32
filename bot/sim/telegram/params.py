"""Reads the parameters of a call to the simulated Bot API in every encoding, and words refusals.

Owns `Params` and `TelegramRefusal`; calls nothing else of the simulator.
"""

import json
from dataclasses import dataclass
from email.parser import HeaderParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

Json = dict[str, Any]


class TelegramRefusal(Exception):
    """An error answer: HTTP status, Telegram's description, `parameters` such as retry_after (seconds)."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


def bad_request(reason: str) -> TelegramRefusal:
    """A 400 in Telegram's spelling.

    The reason starts in lower case unless it is a code like BUTTON_DATA_INVALID.
    """
    is_code = len(reason) > 1 and (reason[1] == "_" or reason[1].isupper())
    return TelegramRefusal(400, "Bad Request: " + (reason if is_code else reason[:1].lower() + reason[1:]))


@dataclass(frozen=True, slots=True)
class Upload:
    """A file in a call, under the name that its sender gave it."""

    content: bytes
    name: str = ""


class Params(dict[str, Any]):
    """The parameters of one call as they came.

    Strings from forms, JSON values from JSON bodies; uploads are in `files`.
    """

    def __init__(self, values: Json, files: dict[str, Upload] | None = None) -> None:
        super().__init__(values)
        self.files = files or {}

    def text(self, name: str) -> str:
        """The parameter as text; an absent one is empty.

        Text that is no valid Unicode is refused as Telegram does.
        """
        value = self.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            return json.dumps(value, ensure_ascii=False)
        if not value.isascii():
            _refuse_broken_unicode(value)
        return value

    def integer(self, name: str, default: int = 0) -> int:
        """The parameter as a whole number; an unreadable one counts as absent, as on the real server."""
        try:
            return int(self.text(name))
        except ValueError:
            return default

    def flag(self, name: str) -> bool:
        """Whether the parameter is switched on."""
        return self.text(name).strip().lower() in ("true", "yes", "1")

    def json(self, name: str) -> Any:
        """The parameter decoded; None when absent. Raises ValueError on broken JSON."""
        value = self.get(name)
        if not isinstance(value, str):
            return value
        if value:
            return json.loads(value)
        return None


def read_params(query: bytes, content_type: str, body: bytes) -> Params:
    """Parameters from the address and the body: form-urlencoded, multipart/form-data or JSON."""
    values: Json = dict(_parse_pairs(query))
    files: dict[str, Upload] = {}
    if not body:
        return Params(values)
    if content_type.startswith("multipart/form-data"):
        fields, files = _parse_multipart(content_type, body)
        values.update(fields)
    elif content_type.startswith("application/json"):
        values.update(_parse_object(body))
    else:
        values.update(_parse_pairs(body))
    return Params(values, files)


def _refuse_broken_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad_request("strings must be encoded in UTF-8") from None


def _parse_pairs(encoded: bytes) -> list[tuple[str, str]]:
    # Broken UTF-8 survives as lone surrogates, so that `Params.text` can refuse it by name.
    return parse_qsl(encoded.decode("latin-1"), keep_blank_values=True, errors="surrogateescape")


def _parse_object(body: bytes) -> Json:
    try:
        decoded = json.loads(body)
    except ValueError:
        raise bad_request("can't parse JSON object") from None
    if not isinstance(decoded, dict):
        raise bad_request("object expected as request body")
    return decoded


def _parse_multipart(content_type: str, body: bytes) -> tuple[Json, dict[str, Upload]]:
    """The fields and files of a form; cut by hand, for an upload may have 50 MB."""
    fields: Json = {}
    files: dict[str, Upload] = {}
    form = HeaderParser(policy=HTTP).parsestr(f"Content-Type: {content_type}\r\n\r\n")
    boundary = str(form.get_param("boundary", "")).encode()
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        headers = HeaderParser(policy=HTTP).parsestr(head.decode(errors="replace"))
        name = headers.get_param("name", header="content-disposition")
        if not isinstance(name, str):
            continue
        file_name = headers.get_filename()
        if file_name is None:
            fields[name] = content.decode(errors="surrogateescape")
        else:
            files[name] = Upload(content, file_name)
    return fields, files
