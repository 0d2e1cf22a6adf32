"""Faults between a bot and Telegram, injected by a test: refusals, floods, cuts, slowness, silence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from bot.sim.telegram.events import BotApiCall

_ERROR_PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>\r\n"
)
_PHRASES = {
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


@dataclass(frozen=True, slots=True)
class BotApiFault:
    """One way to fail.

    `takes_effect`: the call is carried out all the same. `ending` is what the caller gets: the method's own
    answer, an error (`status`, `description`, `retry_after`, or an HTML page), a closed connection, or
    nothing at all. `seconds_before` and `seconds_after` are waited before and after the call is carried out.
    """

    ending: Literal["answer", "error", "cut", "silence"] = "answer"
    takes_effect: bool = True
    status: int = 200
    description: str = ""
    retry_after: int = 0
    html_page: str = ""
    seconds_before: float = 0.0
    seconds_after: float = 0.0

    @classmethod
    def flood(cls, retry_after: int) -> Self:
        """429; the call has no effect."""
        text = f"Too Many Requests: retry after {retry_after}"
        return cls("error", takes_effect=False, status=429, description=text, retry_after=retry_after)

    @classmethod
    def refuse(cls, description: str, status: int = 400) -> Self:
        """An error answer with this description, such as `Bad Request: message thread not found`."""
        return cls("error", takes_effect=False, status=status, description=description)

    @classmethod
    def server_error(cls, status: int = 502, *, html: bool = True, takes_effect: bool = False) -> Self:
        """A 5xx, as a web server's page or as Telegram's JSON."""
        phrase = _PHRASES.get(status, "Internal Server Error")
        page = _ERROR_PAGE.format(f"{status} {phrase}") if html else ""
        return cls("error", takes_effect=takes_effect, status=status, description=phrase, html_page=page)

    @classmethod
    def drop(cls) -> Self:
        """The connection is cut before the call is accepted: no effect, no answer."""
        return cls("cut", takes_effect=False)

    @classmethod
    def accept_then_drop(cls) -> Self:
        """The call is carried out, then the connection is cut without an answer."""
        return cls("cut")

    @classmethod
    def slow(cls, seconds: float, *, after_effect: bool = False) -> Self:
        """A late answer; `after_effect` says whether the call is carried out at once or late, too."""
        if after_effect:
            return cls(seconds_after=seconds)
        return cls(seconds_before=seconds)

    @classmethod
    def hang(cls, *, after_effect: bool = False) -> Self:
        """No answer, until the caller hangs up."""
        return cls("silence", takes_effect=after_effect)


@dataclass(slots=True, eq=False)
class FaultInjection:
    """A fault that waits for its calls.

    `remaining` None means forever; `hit_count` counts the calls it has hit.
    """

    fault: BotApiFault
    method: str | None
    chat_id: int | None
    when: Callable[[BotApiCall], bool] | None
    remaining: int | None
    skip: int = 0
    hit_count: int = 0

    def take_call(self, call: BotApiCall) -> bool:
        """Whether this call is hit; counts it if so."""
        if self.remaining == 0 or not self._matches(call):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.remaining is not None:
            self.remaining -= 1
        self.hit_count += 1
        return True

    def lift(self) -> None:
        """Hit no further call."""
        self.remaining = 0

    def _matches(self, call: BotApiCall) -> bool:
        return (
            (self.method is None or self.method.lower() == call.method.lower())
            and (self.chat_id is None or self.chat_id == call.chat_id)
            and (self.when is None or self.when(call))
        )
