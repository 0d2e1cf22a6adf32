"""Whatever happens in the turns of a whole gateway, each of their breakdowns equals an independent clock."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from sqlalchemy import select, update

from bot.app import turn_factory
from bot.bench.harness.prose import write_prose
from bot.db.engine import Database, open_database
from bot.db.tables import inbox, lives
from bot.db.usage import breakdowns, turn_steps
from bot.http_server import serve
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.response import request_timings
from bot.sim.vllm.server import Timing
from bot.telegram.delivery.rate_budget import RateLimits
from bot.turns import model_caller
from bot.usage import recorder
from tests.support import attachment_files
from tests.support.breakdown_clock import TelegramClock, check_breakdowns, compare_with_clock
from tests.support.cache_warmup import wait_until
from tests.support.endpoint.faults import EndpointFaultKind
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, open_harness, running_gateway
from tests.support.telegram.server import BotApiFault, ScriptedPerson

CHATS = 12
MESSAGES = 6
PROSE = write_prose(150, 1)[1:] + " "
TOOL_CALLS = (
    '@@tools:[{"name":"clock","arguments":{}},{"name":"calculate","arguments":{"expression":"2*3"}}]@@'
)
TEXTS = (
    *("@@say:here I am@@", "@@say:yes@@@@slow:30@@", f"@@repeat:3 {PROSE}@@", f"@@repeat:12 {PROSE}@@"),
    *(
        f"{TOOL_CALLS}@@say:it is late@@",
        '@@tool:calculate {"expression": "1+1"}@@@@say:two@@',
        "@@tool:clock {}@@@@say:now@@",
    ),
    *("@@empty@@", "@@loop:and so on @@", "@@think:hm@@@@say:so@@", '@@tool:unknown {"a": 1}@@@@say:sorry@@'),
)


QUESTION = "Shall I remember this?"
REMEMBER = '@@tool:remember {"note": "n"}@@@@say:kept@@'


class Chatter:
    """One person who writes all kinds of things, some while an answer is under way."""

    def __init__(self, person: ScriptedPerson, rng: random.Random) -> None:
        self._person = person
        self._rng = rng

    async def chat(self) -> None:
        for _ in range(MESSAGES):
            for _ in range(self._rng.choice((1, 1, 1, 2))):
                self._send_something()
            if self._rng.random() < 0.15:
                await asyncio.sleep(self._rng.random() * 0.05)
                self._person.send("/stop")
            await asyncio.sleep(self._rng.random() * 1.5)
            self._answer_approvals()

    async def have_order_allowed(self) -> None:
        """Order what asks first, and allow it unless it is too late: one turn at least waits."""
        self._send_order()
        await wait_until(lambda: any(QUESTION in message.text for message in self._person.chat.bot_messages))
        for message in self._list_questions():
            self._person.tap(message, "Yes")

    def _send_order(self) -> None:
        """What it asks for asks first, for a file may say anything."""
        self._person.send_document("orders.txt", caption=REMEMBER, content=b"Remember this.")

    def _answer_approvals(self) -> None:
        """Allow or deny what was asked, now and then."""
        for message in self._list_questions():
            if self._rng.random() < 0.7:
                self._person.tap(message, self._rng.choice(message.buttons)["text"])

    def _list_questions(self) -> list[ChatMessage]:
        messages = self._person.chat.bot_messages
        return [message for message in messages if message.buttons and message.text.startswith(QUESTION)]

    def _send_something(self) -> None:
        lot = self._rng.random()
        if lot < 0.01:
            self._person.send_photo("What is it?", content=attachment_files.make_image(40, 30))
        elif lot < 0.02:
            for number in range(3):
                self._person.send_photo(
                    "These?" if not number else "",
                    content=attachment_files.make_image(20, 20),
                    album=f"a{lot}",
                )
        elif lot < 0.03:
            self._person.send_document("notes.txt", content=b"One thing and another. " * 40)
        elif lot < 0.08:
            self._send_order()
        else:
            self._person.send(self._rng.choice(TEXTS))


def inject_faults(gateway: GatewayHarness, rng: random.Random) -> None:
    """The endpoint fails now and then, and so does Telegram."""
    rates: dict[EndpointFaultKind, float] = {
        "busy": 0.05,
        "reset": 0.05,
        "error_line": 0.03,
        "slow": 0.05,
        "no_usage": 0.03,
    }
    for kind, rate in rates.items():
        canvases = rng.choice((0, 1))
        gateway.endpoint.inject_fault(kind, times=None, rate=rate, seconds=0.02, after_canvases=canvases)
    slow = (BotApiFault.slow(0.05), BotApiFault.slow(0.05, after_effect=True), BotApiFault.slow(0.3))
    broken = (
        BotApiFault.drop(),
        BotApiFault.server_error(),
        BotApiFault.accept_then_drop(),
        BotApiFault.refuse("Bad Request: can't parse entities"),
    )
    for fault in (*slow, *broken):
        for method in ("sendMessage", "editMessageText"):
            gateway.api.inject_fault(fault, method, when=lambda _: rng.random() < 0.04, times=None)
    gateway.api.inject_fault(
        BotApiFault.flood(1), when=lambda call: call.method == "sendMessage" and rng.random() < 0.02, times=3
    )
    gateway.api.inject_fault(BotApiFault.slow(0.05), "getFile", when=lambda _: rng.random() < 0.3, times=None)


async def wait_for_breakdowns(gateway: GatewayHarness) -> None:
    """Wait until nothing is running and every turn has its breakdown."""
    async with open_database(gateway.settings.database_url) as database:
        while not await _is_settled(database):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _is_settled(database: Database) -> bool:
    async with database.read_transaction() as tx:
        waits = (await tx.execute(select(inbox.c.id).where(inbox.c.state == "parked").limit(1))).one_or_none()
        return waits is None and await breakdowns.is_idle(tx) and await breakdowns.is_all_accounted(tx)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(model_caller, "BACKOFF_SECONDS", (0.02, 0.05))
    monkeypatch.setattr(turn_factory, "MODEL_WAIT_SECONDS", 0.5)


@pytest.mark.sqlite
@pytest.mark.parametrize("seed", range(2))
async def test_every_breakdown_equals_an_independent_clock(tmp_path: Path, seed: int):
    dice = random.Random(seed)
    second = ScriptedEndpoint(timing=Timing.canvas(0.01))
    first = ScriptedEndpoint(timing=Timing.canvas(0.01), seats=3, seed=seed)
    with TelegramClock().observe() as border:
        async with (
            serve(second.app) as url,
            running_gateway(
                tmp_path,
                first,
                RateLimits(),  # a turn's time has waits for Telegram's pace in it
                access="open",
                fallback_url=f"{url}/v1" if seed % 2 else None,
                model_seats=3,
                model_max_tokens=600,
                approval_seconds=2,
            ) as gateway,
        ):
            people = [gateway.api.person(100 + number, f"P{number}") for number in range(CHATS)]
            await Chatter(people[0], dice).have_order_allowed()
            inject_faults(gateway, dice)
            async with asyncio.TaskGroup() as chats:
                for person in people:
                    chats.create_task(Chatter(person, random.Random(seed * 100 + person.id)).chat())
            await wait_for_breakdowns(gateway)
    stored = check_breakdowns(tmp_path / "gateway.db")
    held = compare_with_clock(stored, border)
    assert held > 1
    assert any(breakdown.seconds["approval_wait"] > 0 for breakdown in stored)


@pytest.mark.sqlite
async def test_what_was_written_while_no_gateway_ran_waited_for_one(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        async with gateway.run():
            gateway.ann.send("@@say:first@@")
            await gateway.wait_for_texts()
        now = time.time()
        url = gateway.settings.database_url
        async with open_database(url) as database, database.transaction() as tx:
            ended = {lives.c.seen_at: now - 3600, lives.c.ended_at: now - 3600}
            await tx.execute(update(lives).values({lives.c.began_at: now - 4000, **ended}))
        gateway.ann.send("@@say:second@@", date=now - 1800)
        async with gateway.run():
            await gateway.api.wait_until(lambda: any("second" in text for text in gateway.texts()))
        async with open_database(url) as database, database.read_transaction() as tx:
            *_, turn = await turn_steps.list_accounted_turns(tx)
    whole, *intervals = turn.account.values()
    assert 1790 < turn.account["down"] < whole
    assert sum(intervals) == pytest.approx(whole, abs=0.001)


@pytest.mark.sqlite
async def test_the_queue_at_a_server_that_tells_it_is_no_canvas(tmp_path: Path):
    endpoint = ScriptedEndpoint(timing=Timing.canvas(0.1), seats=1)
    async with running_gateway(tmp_path, endpoint, access="open", model_seats=4) as gateway:
        endpoint.hold()
        for person in range(4):
            gateway.api.person(100 + person).send("@@say:here I am@@")
        await endpoint.wait_until(lambda: endpoint.waiting == 3)
        endpoint.release()
        await gateway.api.wait_until(lambda: all(map(gateway.texts, range(100, 104))))
        await wait_for_breakdowns(gateway)
        url = gateway.settings.database_url
        async with open_database(url) as database, database.read_transaction() as tx:
            accounted = await turn_steps.list_accounted_turns(tx)
    told = [request_timings(request)["queue_time_ms"] / 1000 for request in endpoint.requests]
    queued = [turn.account["server_queue"] for turn in accounted]
    assert sorted(queued) == pytest.approx(sorted(told), abs=0.001)
    assert max(queued) > 0.19  # two whole canvases, after the one that had begun
    for turn in accounted:
        whole, *intervals = turn.account.values()
        assert sum(intervals) == pytest.approx(whole, abs=0.001)
