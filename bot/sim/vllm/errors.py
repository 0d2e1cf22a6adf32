"""How the simulated server refuses: vLLM's wording, and what every route checks of a body.

Pure. What a chat request may not contain is checked in `validation`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.sim.vllm.profile import Profile

Json = dict[str, Any]


class VllmRefusal(Exception):
    """An answer other than 200: HTTP status, message, type and the parameter that caused it."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    @property
    def body(self) -> Json:
        """The JSON of the response."""
        return {
            "error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        }


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the checks need to know of the server."""

    model: str
    context_tokens: int
    profile: Profile


def parse_body(raw: bytes, content_type: str) -> Json:
    """The JSON object of a request body."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise unsupported_media_type("application/json")
    try:
        body = json.loads(raw)
    except ValueError as error:
        place = f"body.{getattr(error, 'pos', 0)}"
        problem = {"error": getattr(error, "msg", "Invalid text")}
        detail = {
            "type": "json_invalid",
            "loc": place,
            "msg": "JSON decode error",
            "input": "<dict of 0 items>",
        }
        raise invalid_body({**detail, "ctx": problem}) from None
    if not isinstance(body, dict):
        raise invalid_body({"type": "dict_type", "loc": "body", "msg": "Input should be a valid dictionary"})
    return body


def check_model(body: Json, server_info: ServerInfo) -> None:
    """Accept the served name only; a request without a name means it, too."""
    model = body.get("model")
    if model not in (None, server_info.model):
        message = f"The model `{model}` does not exist. Valid aliases: {server_info.model}."
        raise VllmRefusal(404, message, "NotFoundError", "model")


def unsupported_media_type(media_type: str) -> VllmRefusal:
    """A body of another media type than the route accepts."""
    return VllmRefusal(
        400, f"1 validation error:\n  Unsupported Media Type: Only '{media_type}' is allowed", "Bad Request"
    )


def invalid_body(detail: Mapping[str, Any], error_count: int = 1) -> VllmRefusal:
    """A body of the wrong shape; `detail` says where (`loc`) and how."""
    noun = "error" if error_count == 1 else "errors"
    return VllmRefusal(
        400, f"{error_count} validation {noun}:\n  {dict(detail)}", "Bad Request", str(detail["loc"])
    )


def missing_field(location: str, parent: object) -> VllmRefusal:
    """A field that is missing."""
    size = len(parent) if isinstance(parent, dict) else 0
    return invalid_body(
        {"type": "missing", "loc": location, "msg": "Field required", "input": f"<dict of {size} items>"}
    )


def build_openai_error(refusal: VllmRefusal) -> Json:
    """The body of a refusal as OpenAI words it, and servers of sound do."""
    return {
        "error": {
            "message": refusal.message,
            "type": "invalid_request_error",
            "param": refusal.param,
            "code": None,
        }
    }
