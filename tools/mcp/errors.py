"""Describes why a server is not available, for an admin and the model. Pure.

Without addresses, and without anything of what was sent.
"""

from collections.abc import Iterator

import httpx2

from tools.mcp.location import ServerLocation, ServerProgram, ServerUrl


class ConnectionGone(Exception):
    """The connection is over; the text says why.

    `is_undelivered`: the server did not accept the request.
    """

    def __init__(self, reason: str, *, is_undelivered: bool = False) -> None:
        super().__init__(reason)
        self.is_undelivered = is_undelivered


class SignInNeeded(ConnectionGone):
    """The server wants somebody to sign in, for the first time or again; or it refuses what it is sent."""


class AddressNotAllowed(httpx2.ConnectError):
    """The address may not be opened; the text says why."""


def explain_refusal(location: ServerUrl) -> str:
    """What has to be done about a server that refuses what it is sent."""
    if location.has_key:
        return "it refuses the key it is sent"
    if location.signed_in_at is None:
        return "an admin has to sign in to it first"
    return "its sign-in is over, and an admin has to sign in again"


def describe_error(error: BaseException) -> str:
    """The cause of an error, or of a group of them, in words: the most telling one."""
    causes = list(iterate_causes(error))
    for kind, template in (
        (AddressNotAllowed, "{}"),
        (SignInNeeded, "{}"),
        ((FileNotFoundError, PermissionError, NotADirectoryError), "its program cannot be started"),
        (httpx2.HTTPError, "its address does not answer"),
        (ConnectionGone, "{}"),
        (TimeoutError, "it did not answer in time"),
    ):
        for cause in causes:
            if isinstance(cause, kind):
                return template.format(cause)
    return "it does not speak the protocol"


def describe_start(location: ServerLocation) -> str:
    """What happens while somebody waits for a server that is not connected."""
    if _may_install(location):
        return "it is being started, and may be installing itself"
    return "it is being started"


def explain_slow_start(location: ServerLocation) -> str:
    """Why a server that has not started in its time is not available."""
    if _may_install(location):
        return "it is still being installed, or does not start; a first start may take minutes"
    return "it did not start in time"


def _may_install(location: ServerLocation) -> bool:
    return isinstance(location, ServerProgram) and location.may_install


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """The errors inside nested groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from iterate_causes(inner)
    else:
        yield error
