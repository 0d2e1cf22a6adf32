"""Whatever happens in the turns of a whole house, each of their books equals an independent clock."""

import asyncio
import random
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.bench.harness.workload import prose
from bot.db.engine import Database, connected
from bot.db.tables import inbox
from bot.db.usage import breakdowns as accounts
from bot.http_server import serve
from bot.sim.telegram.server import Fault, Person
from bot.sim.vllm.server import Endpoint, Timing
from bot.turns import model_caller as asking
from bot.usage import recorder as keeper
from tests.support import attachment_files as made
from tests.support.breakdown_clock import Border, check, hold_against
from tests.support.gateway import World, open_house

CHATS, MESSAGES = 12, 9
PROSE = prose(150, 1)[1:] + " "
CLOCKS = '@@tools:[{"name":"clock","arguments":{}},{"name":"calculate","arguments":{"expression":"2*3"}}]@@'
WORDS = (
    *("@@say:here I am@@", "@@say:yes@@@@slow:30@@", f"@@repeat:3 {PROSE}@@", f"@@repeat:12 {PROSE}@@"),
    *(
        f"{CLOCKS}@@say:it is late@@",
        '@@tool:calculate {"expression": "1+1"}@@@@say:two@@',
        "@@tool:clock {}@@@@say:now@@",
    ),
    *("@@empty@@", "@@loop:and so on @@", "@@think:hm@@@@say:so@@", '@@tool:unknown {"a": 1}@@@@say:sorry@@'),
)


KEEP = '@@tool:remember {"note": "n"}@@@@say:kept@@'


class Chatter:
    """One person who writes all kinds of things, some while an answer is under way."""

    def __init__(self, person: Person, dice: random.Random) -> None:
        self._person = person
        self._dice = dice

    async def chat(self) -> None:
        if self._person.id % 3 == 0:
            self._order()
            await asyncio.sleep(0.5)
        for _ in range(MESSAGES):
            for _ in range(self._dice.choice((1, 1, 1, 2))):
                self._write()
            if self._dice.random() < 0.15:
                await asyncio.sleep(self._dice.random() * 0.05)
                self._person.send("/stop")
            await asyncio.sleep(self._dice.random() * 1.5)
            self._answer()

    def _order(self) -> None:
        """What it asks for asks first, for a file may say anything."""
        self._person.send_document("orders.txt", caption=KEEP, content=b"Remember this.")

    def _answer(self) -> None:
        """Allow or deny what was asked, now and then."""
        asked = [
            one for one in self._person.chat.from_bot if len(one.buttons) == 2 and "May I run" in one.text
        ]
        for one in asked:
            if self._dice.random() < 0.7:
                self._person.tap(one, self._dice.choice(("Allow once", "Deny")))

    def _write(self) -> None:
        lot = self._dice.random()
        if lot < 0.01:
            self._person.send_photo("What is it?", content=made.image(40, 30))
        elif lot < 0.02:
            for number in range(3):
                self._person.send_photo(
                    "These?" if not number else "", content=made.image(20, 20), album=f"a{lot}"
                )
        elif lot < 0.03:
            self._person.send_document("notes.txt", content=b"One thing and another. " * 40)
        elif lot < 0.08:
            self._order()
        else:
            self._person.send(self._dice.choice(WORDS))


def trouble(house: World, dice: random.Random) -> None:
    """The endpoint fails now and then, and so does Telegram."""
    for kind, rate in (
        ("busy", 0.05),
        ("reset", 0.05),
        ("error_line", 0.03),
        ("slow", 0.05),
        ("no_usage", 0.03),
    ):
        house.endpoint.fault(kind, times=None, rate=rate, seconds=0.02, after_canvases=dice.choice((0, 1)))  # type: ignore[arg-type]
    slow = (Fault.slow(0.05), Fault.slow(0.05, after_effect=True), Fault.slow(0.3))
    broken = (
        Fault.drop(),
        Fault.server_error(),
        Fault.accept_then_drop(),
        Fault.refuse("Bad Request: can't parse entities"),
    )
    for fault in (*slow, *broken):
        for method in ("sendMessage", "editMessageText"):
            house.api.inject(fault, method, when=lambda _: dice.random() < 0.04, times=None)
    house.api.inject(
        Fault.flood(1), when=lambda call: call.method == "sendMessage" and dice.random() < 0.02, times=3
    )
    house.api.inject(Fault.slow(0.05), "getFile", when=lambda _: dice.random() < 0.3, times=None)


async def accounted(house: World) -> None:
    """Wait until nothing is under way and every turn has its account."""
    async with connected(house.settings.database_url) as database:
        while not await _is_over(database):  # noqa: ASYNC110 another connection writes it
            await asyncio.sleep(0.02)


async def _is_over(database: Database) -> bool:
    async with database.reading() as tx:
        waits = (await tx.execute(select(inbox.c.id).where(inbox.c.state == "parked").limit(1))).one_or_none()
        return waits is None and await accounts.settled(tx) and await accounts.accounted(tx)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "BEAT", 0.2)
    monkeypatch.setattr(asking, "PAUSES", (0.02, 0.05))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(4))
async def test_every_book_equals_an_independent_clock(tmp_path: Path, seed: int):
    dice, second = random.Random(seed), Endpoint(timing=Timing.canvas(0.01))
    first = Endpoint(timing=Timing.canvas(0.01), seats=3, seed=seed)
    with Border().watched() as border:
        async with (
            serve(second.app) as url,
            open_house(
                tmp_path,
                first,
                access="open",
                fallback_url=f"{url}/v1" if seed % 2 else None,
                model_seats=3,
                model_max_tokens=600,
                model_wait=0.5,
                waiting_messages=50,
                approval_seconds=2,
            ) as house,
        ):
            trouble(house, dice)
            people = [house.api.person(100 + number, f"P{number}") for number in range(CHATS)]
            async with asyncio.TaskGroup() as chats:
                for person in people:
                    chats.create_task(Chatter(person, random.Random(seed * 100 + person.id)).chat())
            await accounted(house)
    found = check(tmp_path / "house.db")
    held = hold_against(found, border)
    assert held > CHATS
    assert any(book.seconds["approval_wait"] > 0 for book in found)
