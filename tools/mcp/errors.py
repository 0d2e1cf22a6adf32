"""Why a server is not available, in words for an admin and the model: no addresses, nothing of what was sent.
Pure.
"""

from collections.abc import Iterator

import httpx2


class ConnectionGone(Exception):
    """The connection is over; the text says why. `unheard`: the server did not take up what it was asked."""

    def __init__(self, reason: str, *, is_undelivered: bool = False) -> None:
        super().__init__(reason)
        self.is_undelivered = is_undelivered


class AddressNotAllowed(httpx2.ConnectError):
    """The address is none that may be opened; the text says why."""


def describe_error(error: BaseException) -> str:
    """What is behind an error, or a group of them: the most telling of its causes."""
    behind = list(iterate_causes(error))
    for kind, words in (
        (AddressNotAllowed, "{}"),
        ((FileNotFoundError, PermissionError, NotADirectoryError), "its program cannot be started"),
        (httpx2.HTTPError, "its address does not answer"),
        (ConnectionGone, "{}"),
        (TimeoutError, "it did not answer in time"),
    ):
        for cause in behind:
            if isinstance(cause, kind):
                return words.format(cause)
    return "it does not speak the protocol"


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group of groups of them, or the one error that it is."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from iterate_causes(one)
    else:
        yield error
