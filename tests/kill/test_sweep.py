"""Killed over and over at random moments: nothing is lost, nothing is answered twice, and doubt is said."""

import asyncio
import itertools
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from bot.aside import SORRY
from bot.sim.botapi import Call, Fault, Person
from bot.sim.endpoint import ChatRequest, Endpoint, Reply, Timing, call_text
from tests.kill.conftest import Surround
from tests.kill.gateway import PATIENCE
from tests.kill.surroundings import Surroundings

CHATS, MESSAGES, KILLS = 12, 300, 50
AT_ONCE = 4  # chats that wait for an answer; an item that runs at more than ten deaths is set aside
LONGEST_LIFE = 12  # calls to Telegram, of which a start makes three or four
KINDS = ("plain", "plain", "plain", "ring", "look", "remember", "long", "command")
ASKED = re.compile(r"\b(plain|ring|look|remember|long) (\d{3})\b")
SLOW_SEND = 0.05  # seconds


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
        return f"B{number} {'and so on ' * 100 if kind == 'long' else ''}E{number}"


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
        wrote = []
        for number in [next(self.numbers, None) for _ in range(self.dice.choice((1, 1, 2, 3)))]:
            if number is not None:
                kind, name = self.dice.choice(KINDS), f"{number:03}"
                self.person.send(f"/c{name}" if kind == "command" else f"{kind} {name}")
                self.sent.append((kind, name))
                wrote += [f"/c{name}."] if kind == "command" else [f"B{name}", f"E{name}"]
        return wrote

    def _missing(self, wanted: list[str]) -> list[str]:
        seen = "\n".join(self.house.texts(self.person.id))
        assert SORRY not in seen
        return [word for word in wanted if word not in seen]

    def _doubts(self) -> list[int]:
        return [one.message_id for one in self.house.unsure(self.person.id) if one.message_id not in self.tapped]

    def _ask_again(self, doubt: int) -> None:
        self.tapped.add(doubt)
        for _ in range(self.dice.randint(1, 2)):
            self.person.tap(doubt, "Send again")


@dataclass
class Reaper:
    """Lets the gateway live for a random number of calls to Telegram, again and again; some lives end in order."""

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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
async def test_a_sweep_of_kills(surround: Surround, seed: int):
    dice = random.Random(seed)
    model = Model()
    house = await surround(
        Endpoint(timing=Timing(canvas_seconds=0.01), brain=model), model_max_tokens=4096, start=False
    )
    model.bells = house.bells.url
    reaper = Reaper(house, dice)
    house.api.inject(Fault(), when=reaper.count, times=None)
    for fault in (Fault.slow(SLOW_SEND), Fault.slow(SLOW_SEND, after_effect=True), Fault.accept_then_drop()):
        house.api.inject(fault, "sendMessage", when=lambda _: dice.random() < 0.06, times=None)
    numbers = itertools.takewhile(lambda n: n < MESSAGES or reaper.kills < KILLS, itertools.count())
    chatters = [
        Chatter(house, house.api.person(100 + chat), random.Random(seed * 100 + chat), numbers) for chat in range(CHATS)
    ]
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
    await house.at_rest()
    wrote = sum(len(chatter.sent) for chatter in chatters)
    doubts = len(house.rows("select 1 from outbox where state = 'unknown'"))
    sys.stdout.write(f"seed {seed}: {wrote} messages, {reaper.kills} kills, {doubts} sends of unknown outcome\n")
    assert (wrote >= MESSAGES, reaper.kills >= KILLS) == (True, True)
    check(house, chatters)


def check(house: Surroundings, chatters: list[Chatter]) -> None:
    house.accounted()
    rows = house.rows("select state, copy_of, body from outbox where body is not null and about is null")
    doubted = [body for state, _, body in rows if state == "unknown"]
    copied = [body for state, copy_of, body in rows if state == "done" and copy_of is not None]
    for chatter in chatters:
        seen = house.texts(chatter.person.id)
        for kind, name in chatter.sent:
            for word in [f"/c{name}."] if kind == "command" else [f"B{name}", f"E{name}"]:
                copies = sum(word in body for body in copied)
                doubts = sum(word in body for body in doubted)
                times = sum(text.count(word) for text in seen)
                assert max(1, copies) <= times <= copies + max(1, doubts), (word, times, copies, doubts)
        in_order(seen, [name for kind, name in chatter.sent if kind != "command"], doubted)
    written(house, [pair for chatter in chatters for pair in chatter.sent])


def in_order(seen: list[str], sent: list[str], doubted: list[str]) -> None:
    """What was never in doubt stands in the order it was asked for."""
    certain = [name for name in sent if not any(f"B{name}" in body for body in doubted)]
    everything = "\n".join(seen)
    places = [everything.index(f"B{name}") for name in certain]
    assert places == sorted(places)


def written(house: Surroundings, sent: list[tuple[str, str]]) -> None:
    """Each message was kept once; what tools did, they did once."""
    texts = [text for (text,) in house.rows("select text from messages where role = 'user'")]
    outcomes = {
        (name, json.loads(arguments).get("address", "")[-3:]): outcome
        for name, arguments, outcome in house.rows("select name, arguments, outcome from tool_calls")
    }
    notes = [text for (text,) in house.rows("select text from notes")]
    for kind, name in sent:
        assert sum(text.endswith(f"{kind} {name}") for text in texts) == (kind != "command")
        assert notes.count(f"note {name}") <= 1
        if kind == "ring":
            assert house.bells.rung[name] <= 1
            assert house.bells.rung[name] == 1 or outcomes["ring", name] == "unknown"
        if kind == "look":
            assert house.bells.rung[name] >= 1
            assert outcomes["look", name] == "ok"
