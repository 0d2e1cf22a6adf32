"""The demo: both simulators, a temporary database and the real gateway in one process, and a page to chat on.

Owns how they are put together and what is said about it; needs no token and no settings, and reads none.
"""

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from bot import app, logs
from bot.agent import server
from bot.db import accounts
from bot.db.accounts import TurnRow
from bot.db.engine import Database, connected
from bot.errors import CanvasgramError
from bot.serving import serve
from bot.settings import given
from bot.sim.botapi import BotApi, Person
from bot.sim.chatpage import ChatPage, Notice
from bot.sim.endpoint import Endpoint, Timing
from bot.sim.showcase import SHOWCASE, showcase
from bot.usage.account import EXPLAINED, ORDER, Account, Kind, account, in_words

PERSON = 1001  # Telegram's number of whoever sits before the page
CANVAS_SECONDS = 0.4
PREFILL = 3000  # tokens a second
LOOK_SECONDS = 0.1  # between two looks into the database
PATIENCE = 1.0  # seconds a running turn has when the demo is ended; its database goes with it
SHOWN = 160  # characters of a tool's result in the terminal
_NO_ANSWER = {"away", "too_long", "refused", "empty"}

Tell = Callable[[str], None]


class PortTaken(CanvasgramError):
    """The port of the chat page cannot be had."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo. `endpoint` is None with a real model; `model` says in one line what answers."""

    api: BotApi
    person: Person
    database: Database
    endpoint: Endpoint | None
    model: str

    async def delivered(self, after: int = 0) -> list[TurnRow]:
        """The turns above `after` whose answer has arrived."""
        async with self.database.reading() as tx:
            return await accounts.delivered(tx, after=after)

    async def is_settled(self, update_id: int) -> bool:
        """Whether this update is answered and nothing else is under way."""
        async with self.database.reading() as tx:
            return await accounts.settled(tx, update_id)


async def run(
    stop: asyncio.Event, *, model_url: str | None, say: str | None, port: int, tell: Tell = typer.echo
) -> int:
    """Serve the chat page until `stop`, or with `say` one exchange in the terminal; the exit code.

    Raises a CanvasgramError when the port is taken or no endpoint answers at `model_url`.
    """
    logs.configure("WARNING")
    async with opened(model_url) as demo:
        if say is not None:
            return await _exchange(demo, say, stop, tell)
        async with page_of(demo, port) as address:
            tell(_greeting(demo, address))
            await stop.wait()
    tell("\nStopped. The temporary database is deleted.")
    return 0


@contextlib.asynccontextmanager
async def opened(model_url: str | None = None, endpoint: Endpoint | None = None) -> AsyncIterator[Demo]:
    """A whole house on a database of its own; with `model_url` a real endpoint takes the place of the simulated one."""
    api = BotApi()
    person = api.person(PERSON, "Guest")
    with tempfile.TemporaryDirectory(prefix="canvasgram-demo-") as folder:
        async with api.served() as telegram_url, _model(model_url, endpoint) as (url, simulated, words):
            settings = given(
                telegram_token=api.token,
                telegram_api_url=telegram_url,
                model_url=url,
                model_wait=60,
                model_max_tokens=2048,
                database_url=f"sqlite+aiosqlite:///{Path(folder) / 'demo.db'}",
                admin_ids=str(PERSON),
            )
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                gateway = tasks.create_task(app.run(settings, stop), name="gateway")
                try:
                    await api.until(lambda: api.calls_of("getUpdates") and api.commands, timeout=30)
                    async with connected(settings.database_url) as database:
                        yield Demo(api, person, database, simulated, words)
                finally:
                    stop.set()
                    _, late = await asyncio.wait({gateway}, timeout=PATIENCE)
                    for task in late:
                        task.cancel()


@contextlib.asynccontextmanager
async def _model(model_url: str | None, endpoint: Endpoint | None) -> AsyncIterator[tuple[str, Endpoint | None, str]]:
    if model_url is not None:
        url = given(telegram_token="0:unset", model_url=model_url).model_url  # noqa: S106 - there is no such bot
        served = await server.models(url)
        name = served[0].name if served else "no model"
        yield url, None, f"{name} at {url}"
        return
    made = endpoint or Endpoint(
        timing=Timing.canvas(CANVAS_SECONDS, prefill_tokens_per_s=PREFILL), seats=4, brain=showcase
    )
    async with serve(made.app) as address:
        yield f"{address}/v1", made, f"{CANVAS_SECONDS:g} s a canvas; a DGX Spark takes about 1.6 s"


@contextlib.asynccontextmanager
async def page_of(demo: Demo, port: int = 0) -> AsyncIterator[str]:
    """The chat page, served and alive while the block runs; yields its address. Raises PortTaken."""
    page = ChatPage(demo.api, demo.person, _notice(demo), SHOWCASE, opened=lambda: demo.person.send("/start"))
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serve(page.app, port=port))
        except OSError as error:
            raise PortTaken(
                f"Port {port} cannot be had ({error.strerror}). Leave --port out to take a free one."
            ) from None
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tellers = [
            tasks.create_task(page.run(), name="page"),
            tasks.create_task(_accounts(demo, page), name="accounts"),
        ]
        try:
            yield f"{url}{page.path}"
        finally:
            page.close()
            for teller in tellers:
                teller.cancel()


async def _accounts(demo: Demo, page: ChatPage) -> None:
    """Put the account of each turn under its answer, as soon as the gateway has written down that it arrived."""
    last = 0
    while True:
        for turn in await demo.delivered(last):
            last = turn.id
            standing = [part.message_id for part in turn.parts if part.message_id is not None]
            if standing:
                page.account(standing[-1], _shown(account(turn), turn))
        await asyncio.sleep(LOOK_SECONDS)


def _shown(counted: Account, turn: TurnRow) -> dict[str, object]:
    """An account as the page reads it; a kind is its number in ORDER."""
    return {
        "whole": counted.whole,
        "seconds": [
            {"kind": ORDER.index(kind), "name": _named(kind, turn), "seconds": seconds, "why": EXPLAINED[kind]}
            for kind, seconds in counted.seconds
        ],
        "tokens": in_words(counted),
    }


def _named(kind: Kind, turn: TurnRow) -> str:
    names = Counter(tool.name for tool in turn.tools)
    used = ", ".join(name if times == 1 else f"{name} × {times}" for name, times in names.items())
    return f"tools ({used})" if kind == "tools" else kind


async def _exchange(demo: Demo, text: str, stop: asyncio.Event, tell: Tell) -> int:
    """One question and what came of it, printed; 1 if that was no answer."""
    posted = demo.person.paste(text)
    while not await demo.is_settled(posted[-1].update_id):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
        if stop.is_set():
            return 1
    turns = await demo.delivered()
    tell(f"You: {text}\n")
    for turn in turns:
        for tool in turn.tools:
            tell(f"  {tool.name} {_in_short(tool.arguments)} → {_in_short(tool.result or tool.outcome or '')}")
    answers = [message.text for message in demo.person.chat.from_bot]
    tell("\n" + ("\n\n".join(f"Canvasgram: {answer}" for answer in answers) or "No answer came.") + "\n")
    for turn in turns:
        tell(_in_lines(account(turn)))
    tell(f"\n{_said_plainly(demo)}")
    return 0 if answers and not any(turn.ending in _NO_ANSWER for turn in turns) else 1


def _in_lines(counted: Account) -> str:
    seconds = " · ".join(f"{kind} {seconds:.3f}" for kind, seconds in counted.seconds)
    return f"  {counted.whole:.3f} s: {seconds}\n  {in_words(counted)}"


def _in_short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def _said_plainly(demo: Demo) -> str:
    if demo.endpoint is None:
        return f"Real: the gateway and the model ({demo.model}). Simulated: Telegram."
    return f"Simulated: the model ({demo.model}) and Telegram. Real: the gateway, its tools, its database."


def _notice(demo: Demo) -> Notice:
    if demo.endpoint is None:
        return Notice(
            "Telegram is simulated. The model is real.",
            (
                f"The model is {demo.model}; what it says, and the tokens below its answers, are its own.",
                "Telegram is a simulator with Telegram's limits; nothing leaves this machine but what the model and "
                "tools need.",
                "The gateway is the real one, on a temporary database.",
            ),
            "canvasgram setup",
        )
    return Notice(
        "Model and Telegram are simulated.",
        (
            f"The model knows the questions below and a few more; it takes {demo.model}. The tokens below its answers "
            "are the simulator's.",
            "Telegram is a simulator with Telegram's limits. The gateway, its tools and its seconds are real, on a "
            "temporary database.",
            "A real model here: canvasgram demo --model-url http://gpu:8000/v1",
        ),
        "canvasgram setup",
    )


def _greeting(demo: Demo, address: str) -> str:
    simulated = "Telegram" if demo.endpoint is None else f"Telegram, and the model ({demo.model})"
    real = "the gateway, its tools, its database (a temporary one)"
    rows: Sequence[tuple[str, str]] = (
        ("Open", address),
        ("Simulated", simulated),
        ("Real", real if demo.endpoint is not None else f"{real}, the model ({demo.model})"),
        ("Real use", "canvasgram setup"),
        ("Stop", "Ctrl-C"),
    )
    return "Canvasgram demo\n\n" + "\n".join(f"  {name:<10} {words}" for name, words in rows)
