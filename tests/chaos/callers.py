"""Which of several gateways makes a call to the simulated Telegram: each has an address of its own."""

from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

_caller: ContextVar[int] = ContextVar("caller", default=0)


def find_caller() -> int:
    """The number of the gateway whose call is handled."""
    return _caller.get()


def name_caller(app: ASGIApp, number: int) -> ASGIApp:
    """The app at the address of the gateway of this number."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        _caller.set(number)
        await app(scope, receive, send)

    return handle
