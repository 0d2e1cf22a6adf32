"""How the simulated server says no: the refusal in vLLM's words, and what every route checks of a body.

Pure. What a chat request may not ask for is `endpoint_checks`' business.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.sim.vllm.profile import Profile

Json = dict[str, Any]


class Refusal(Exception):
    """An answer other than 200: HTTP status, message, type and the parameter it is about."""

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
        """The JSON that is sent."""
        return {
            "error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        }


BUSY = Refusal(
    503,
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
    "Service Unavailable",
)
DEAD = Refusal(500, "The server had an error while processing your request.", "InternalServerError")


@dataclass(frozen=True, slots=True)
class Server:
    """What the checks need to know of the server."""

    model: str
    context: int
    profile: Profile


def parse(raw: bytes, content_type: str) -> Json:
    """The JSON object of a request body."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise unsupported("application/json")
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
        raise invalid({**detail, "ctx": problem}) from None
    if not isinstance(body, dict):
        raise invalid({"type": "dict_type", "loc": "body", "msg": "Input should be a valid dictionary"})
    return body


def check_model(body: Json, server: Server) -> None:
    """Only the served name is known; none at all means it too."""
    model = body.get("model")
    if model not in (None, server.model):
        message = f"The model `{model}` does not exist. Valid aliases: {server.model}."
        raise Refusal(404, message, "NotFoundError", "model")


def unsupported(wanted: str) -> Refusal:
    """A body of another kind than the route takes."""
    return Refusal(
        400, f"1 validation error:\n  Unsupported Media Type: Only '{wanted}' is allowed", "Bad Request"
    )


def invalid(detail: Mapping[str, Any], count: int = 1) -> Refusal:
    """A body of the wrong shape; `detail` says where (`loc`) and how."""
    noun = "error" if count == 1 else "errors"
    return Refusal(400, f"{count} validation {noun}:\n  {dict(detail)}", "Bad Request", str(detail["loc"]))


def missing(place: str, holder: object) -> Refusal:
    """A field that is not there."""
    size = len(holder) if isinstance(holder, dict) else 0
    return invalid(
        {"type": "missing", "loc": place, "msg": "Field required", "input": f"<dict of {size} items>"}
    )
