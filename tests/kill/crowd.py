"""A crowd that writes to the bot while a reaper kills the gateway at random moments, and the model that
answers.
"""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bot.bench.harness.workload import prose
from bot.queue.dead_letters import SORRY
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.server import Call, Fault, Person
from bot.sim.vllm.server import ChatRequest, Endpoint, Reply, Timing, call_text
from tests.kill.environment import Surroundings
from tests.kill.gateway import PATIENCE

AT_ONCE = 4  # chats that wait for an answer; an item that runs at more than ten deaths is set aside
LONGEST_LIFE = 12  # calls to Telegram, of which a start makes three or four
KINDS = ("plain", "plain", "plain", "ring", "look", "remember", "long", "command")
ASKED = re.compile(r"\b(plain|ring|look|remember|long) (\d{3})\b")
SLOW_SEND = 0.05  # seconds
LONG = prose(300, 1)[1:] + " "  # what repeats itself would be cut
STOP = "⏹ Stop"
LONG = "".join(f"and {n} more " for n in range(1000, 1100))  # words that repeat would be cut for it


def endpoint() -> Endpoint:
    """One whose model is a Model, and quick."""
    return Endpoint(timing=Timing(canvas_seconds=0.01), brain=Model())


@dataclass
class Model:
    """Answers every message it is asked between `B123` and `E123`, after the tools the messages name."""

    bells: str = ""

    def __call__(self, request: ChatRequest) -> Reply:
        asked = [pair for text in request.asked for pair in ASKED.findall(text)]
        calls = [self._call(kind, number) for kind, number in asked if kind in {"ring", "look", "remember"}]
        if calls and request.step == 0:
            return Reply("".join(calls))
        slow = any(kind == "long" for kind, _ in asked)
        return Reply("\n\n".join(self._answer(*pair) for pair in asked), 0.02 if slow else 0.0)

    def _call(self, kind: str, number: str) -> str:
        if kind == "remember":
            return call_text("remember", {"note": f"note {number}"})
        return call_text(kind, {"address": f"{self.bells}/{number}"})

    def _answer(self, kind: str, number: str) -> str:
        return f"B{number} {LONG if kind == 'long' else ''}E{number}"


def words(kind: str, name: str) -> list[str]:
    """What is to be seen of the answer to a message."""
    return [f"/c{name}."] if kind == "command" else [f"B{name}", f"E{name}"]


@dataclass
class Chatter:
    """One person: writes a few messages, waits until each is answered or doubted, asks for what is missing."""

    house: Surroundings
    person: Person
    dice: random.Random
    numbers: Iterator[int]
    sent: list[tuple[str, str]] = field(default_factory=list)
    tapped: set[int] = field(default_factory=set)

    async def chat(self, free: asyncio.Semaphore) -> None:
        """Write until there is nothing more to be said."""
        wrote = True
        while wrote:
            async with free:
                wrote = await self._exchange()

    async def _exchange(self) -> bool:
        wrote = self._write()
        while missing := self._missing(wrote):
            await self._news(wrote, missing)
            for doubt in self._doubts() if self._missing(wrote) or self.dice.random() < 0.5 else ():
                self._ask_again(doubt)
        return bool(wrote)

    async def _news(self, wrote: list[str], missing: list[str]) -> None:
        await self.house.api.until(lambda: self._missing(wrote) != missing or self._doubts(), 2 * PATIENCE)

    def _write(self) -> list[str]:
        """Write something; returns the words to be seen in the answers."""
        return [
            word for _ in range(self.dice.choice((1, 1, 2, 3))) for word in self._say(self.dice.choice(KINDS))
        ]

    def _say(self, kind: str) -> list[str]:
        number = next(self.numbers, None)
        if number is None:
            return []
        name = f"{number:03}"
        self.person.send(f"/c{name}" if kind == "command" else f"{kind} {name}")
        self.sent.append((kind, name))
        return words(kind, name)

    def _missing(self, wanted: list[str]) -> list[str]:
        seen = "\n".join(self.house.texts(self.person.id))
        assert SORRY not in seen
        return [word for word in wanted if word not in seen]

    def _doubts(self) -> list[int]:
        return [
            one.message_id for one in self.house.unsure(self.person.id) if one.message_id not in self.tapped
        ]

    def _ask_again(self, doubt: int) -> None:
        self.tapped.add(doubt)
        for _ in range(self.dice.randint(1, 2)):
            self.person.tap(doubt, "Send again")


class Waverer(Chatter):
    """One who now and then changes their mind about what they wrote: /stop, the button, /new. Then writes
    once more.
    """

    def _write(self) -> list[str]:
        if not super()._write():
            return []
        for _ in range(self.dice.randint(0, 2)):
            shown = [one for one in self._messages() if any(button["text"] == STOP for button in one.buttons)]
            if shown and self.dice.random() < 0.5:
                self.person.tap(self.dice.choice(shown), STOP)
            else:
                self.person.send(self.dice.choice(("/stop", "/stop", "/new")))
        return self._say("plain")

    def _messages(self) -> list[ChatMessage]:
        return self.house.messages(self.person.id)


@dataclass
class Reaper:
    """Lets the gateway live for a random number of calls to Telegram, again and again; some lives end in
    order.
    """

    house: Surroundings
    dice: random.Random
    kills: int = 0
    calls: int = 0
    end: int = 0
    over: bool = False

    def count(self, _: Call) -> bool:
        self.calls += 1
        return False

    async def reap(self) -> None:
        while not self.over:
            long = self.kills % 5 == 4  # now and then, so that all that waits gets further
            self.end = self.calls + self.dice.randint(1, LONGEST_LIFE) + (2 * LONGEST_LIFE if long else 0)
            await self.house.gateway.spawn()
            await self.house.until(lambda: self.over or self.calls >= self.end)
            await asyncio.sleep(self.dice.random() * 0.05)
            if self.dice.random() < 0.1:
                assert (await self.house.gateway.terminate())[0] == 0
            else:
                await self.house.gateway.kill()
                self.kills += 1


async def sweep(house: Surroundings, reaper: Reaper, chatters: Sequence[Chatter]) -> None:
    """Let them write until all have said what they have to say, and the gateway come to rest."""
    assert isinstance(house.endpoint.brain, Model)
    house.endpoint.brain.bells = house.bells.url
    house.api.inject(Fault(), when=reaper.count, times=None)
    for fault in (Fault.slow(SLOW_SEND), Fault.slow(SLOW_SEND, after_effect=True), Fault.accept_then_drop()):
        house.api.inject(fault, "sendMessage", when=lambda _: reaper.dice.random() < 0.06, times=None)
    free = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as tasks:
        reaping = tasks.create_task(reaper.reap())
        async with asyncio.TaskGroup() as chats:
            for chatter in chatters:
                chats.create_task(chatter.chat(free))
        reaper.over = True
        house.ann.send("hello")
        await reaping
    await house.gateway.start()
    await house.until(
        lambda: not house.api.updates.pending_ids
    )  # what is not fetched yet would not be missed at rest
    await house.at_rest()
