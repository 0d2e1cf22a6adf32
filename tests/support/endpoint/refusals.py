"""Refusals that only a server with faults, with other flags or of another make sends."""

from bot.sim.vllm.errors import Json, VllmRefusal

LOADING = VllmRefusal(503, "The model is still loading.", "Service Unavailable")
UNAUTHORIZED = VllmRefusal(401, "Incorrect API key provided.", "Unauthorized")
ENGINE_BUSY = VllmRefusal(
    503,
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different "
    "instance.",
    "Service Unavailable",
)


class _QueueFullEvent(VllmRefusal):
    """The same as the only event of a stream that began with HTTP 200."""

    def __init__(self) -> None:
        super().__init__(200, ENGINE_BUSY.message)

    @property
    def body(self) -> Json:
        return ENGINE_BUSY.body


QUEUE_FULL_EVENT = _QueueFullEvent()
ENGINE_DEAD = VllmRefusal(
    500, "The server had an error while processing your request.", "InternalServerError"
)
NO_PICTURES_500 = VllmRefusal(
    500,
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "server_error",
)
NO_TOOLS_500 = VllmRefusal(500, "tools param requires --jinja flag", "server_error")
