"""Letting in, removing and blocking on the page does what the chat does: in chats, database and audit."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Mapping
from html import unescape
from pathlib import Path

import httpx
from sqlalchemy import func, select

from bot.chat.commands.people_changes import describe_decision
from bot.db.engine import Database, open_database
from bot.db.people import people
from bot.db.tables import jobs
from tests.admin.test_people import BOB as MEMBER
from tests.admin.test_people import CY, GROUP, HOSTILE, let_in, list_changes
from tests.admin.test_sessions import ask_for_link, load_audit
from tests.gateway.test_schedules import add_due_job
from tests.gateway.test_task_yield import slow_endpoint
from tests.support.admin_page import (
    ANN,
    PATIENCE,
    build_running_gateway,
    find_csrf_token,
    open_admin_page,
)
from tests.support.free_ports import find_free_port
from tests.support.gateway import GatewayHarness, long_story, running_gateway
from tests.support.group_chat import open_group
from tests.support.telegram.faults import BotApiFault
from tests.support.telegram.server import ScriptedPerson
from tests.support.update_harness import UpdateHarness

BOB = 88
DAN = 10


class Browser:
    """An admin's browser at the page of a running gateway."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def read(self, path: str, status: int = 200) -> str:
        """The text of a page, which must come with this status."""
        answer = await self._http.get(f"/admin/people{path}")
        assert answer.status_code == status, answer.text
        return unescape(answer.text)

    async def act(self, path: str, status: int = 200) -> str:
        """Open the question of an act and press its button; returns the page that follows."""
        question = await self.read(path)
        assert "What will happen" in question
        return await self.post(path, {"csrf": find_csrf_token(question)}, status)

    async def post(self, path: str, fields: Mapping[str, str], status: int = 200) -> str:
        """Send the form of an act; returns the page that follows."""
        answer = await self._http.post(f"/admin/people{path}", data=fields, follow_redirects=True)
        assert answer.status_code == status, answer.text
        return unescape(answer.text)


def find_note(text: str) -> str:
    """What a page says was done."""
    match = re.search(r'class="note" role="status">([^<]*)<', text)
    assert match is not None, text
    return match[1]


@contextlib.asynccontextmanager
async def open_browser(gateway: GatewayHarness) -> AsyncIterator[Browser]:
    link = await ask_for_link(gateway)
    origin = link.partition("/admin/")[0]
    async with httpx.AsyncClient(base_url=origin, headers={"origin": origin}, timeout=PATIENCE) as http:
        assert (await http.post(link)).status_code == 303
        yield Browser(http)


async def count_reminders(gateway: GatewayHarness) -> int:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        reminders = select(func.count()).select_from(jobs).where(jobs.c.kind == "reminder")
        return int((await tx.execute(reminders)).scalar_one())


async def wait_until_cut(gateway: GatewayHarness) -> None:
    """Wait until a model call has ended while the endpoint is held; then release that."""
    await gateway.endpoint.wait_until(lambda: any(request.cancelled for request in gateway.endpoint.requests))
    gateway.endpoint.release()


async def block_in_the_middle_of_an_answer(
    gateway: GatewayHarness, browser: Browser, bob: ScriptedPerson
) -> int:
    """Block Bob, who has a reminder and a turn that runs; returns how many messages he sees then."""
    await add_due_job(gateway, "water the plants", kind="reminder", seconds_ago=-3600, chat=BOB)
    bob.send(long_story())  # his role is known at once
    await gateway.endpoint.wait_until(lambda: any(request.canvases for request in gateway.endpoint.requests))
    gateway.endpoint.hold()
    await gateway.api.wait_until(lambda: len(gateway.texts(BOB)) == 3)
    assert find_note(await browser.act(f"/{BOB}/block")) == "Bob is blocked."
    await wait_until_cut(gateway)
    assert "Bob is blocked now." in await browser.read(f"/{BOB}/block", 409)

    shown = gateway.texts(BOB)
    requests = len(gateway.endpoint.requests)
    bob.send("are you there?")
    gateway.ann.send("@@say:for Ann@@")
    await gateway.api.wait_until(lambda: gateway.texts()[-1] == "for Ann")
    assert (gateway.texts(BOB), len(gateway.endpoint.requests)) == (shown, requests + 1)
    return len(shown)


async def test_people_are_let_in_blocked_unblocked_and_removed_as_in_the_chat(tmp_path: Path):
    async with (
        running_gateway(tmp_path, slow_endpoint(), http_port=find_free_port(), admin_page="on") as gateway,
        open_browser(gateway) as browser,
    ):
        bob = gateway.api.person(BOB, "Bob")
        bob.send("hello?")
        [asked] = await gateway.wait_for_texts(1, BOB)
        code = re.findall(r"\b[A-Z]{8}\b", asked)[0]
        await gateway.wait_for_texts(2)  # Ann's card
        assert code in await browser.read("")
        assert code in await browser.read(f"/{BOB}/let-in")
        assert "form" in await browser.post(f"/{BOB}/let-in", {"csrf": "forged"}, 403)
        assert len(gateway.texts(BOB)) == 1

        assert find_note(await browser.act(f"/{BOB}/let-in")) == "Bob now has access."
        assert (await gateway.wait_for_texts(2, BOB))[1].startswith("Hello Bob.")
        gateway.ann.tap(gateway.ann.chat.bot_messages[-1], "Give access")
        await gateway.api.wait_until(lambda: gateway.texts()[-1] == "Bob got access from Ann.")
        await browser.post(f"/{BOB}/let-in", {}, 403)
        assert "Bob is a member now." in await browser.read(f"/{BOB}/let-in", 409)

        shown = await block_in_the_middle_of_an_answer(gateway, browser, bob)
        assert await count_reminders(gateway) == 0
        assert find_note(await browser.act(f"/{BOB}/unblock")) == "Bob is no longer blocked."
        bob.send("and now?")
        # The answer that was cut stays as it was.
        await gateway.api.wait_until(lambda: len(gateway.texts(BOB)) > shown)
        assert "code" in gateway.texts(BOB)[-1]
        await browser.act(f"/{BOB}/let-in")
        assert find_note(await browser.act(f"/{BOB}/remove")) == "Bob has been removed."
        await browser.read(f"/{BOB}/remove", 404)
    entries = [entry for entry in await load_audit(gateway.settings.database_url) if entry.who == ANN]
    changes = [(entry.what, entry.before, entry.after) for entry in reversed(entries)]
    member = {"role": "member", "name": "Bob"}
    assert {entry.via for entry in entries} == {"page"}
    assert {entry.subject for entry in entries} == {"page", f"person {BOB}"}
    assert changes == [
        ("logged in", None, None),
        ("let in", None, {"role": "member"}),
        ("blocked", member, {"role": "blocked"}),
        ("removed", {"role": "blocked", "name": "Bob"}, None),
        ("let in", None, {"role": "member"}),
        ("removed", member, None),
    ]


async def test_groups_are_let_in_and_left_as_in_the_chat(tmp_path: Path):
    async with (
        running_gateway(tmp_path, slow_endpoint(), http_port=find_free_port(), admin_page="on") as gateway,
        open_browser(gateway) as browser,
    ):
        dan = gateway.api.person(DAN, "Dan")
        team = open_group(gateway.api, dan)
        path = f"/groups/{team.group.chat.id}"
        await gateway.wait_for_texts(2)  # Ann's card
        assert "What will happen" in await browser.read(f"{path}/let-in")
        await browser.post(f"{path}/let-in", {}, 403)
        assert team.texts() == []
        assert find_note(await browser.act(f"{path}/let-in")) == "“Team” now has access."
        assert (await team.wait_for_texts(1))[0].startswith("Hello!")
        gateway.ann.tap(gateway.ann.chat.bot_messages[-1], "Leave")
        await gateway.api.wait_until(lambda: gateway.texts()[-1] == "“Team” got access from Ann.")
        assert "“Team” is let in now." in await browser.read(f"{path}/let-in", 409)

        team.group.change_member(gateway.ann.user, "member")
        gateway.ann.send(f"/ask@canvasgram_sim_bot {long_story()}", thread=team.group)
        await gateway.endpoint.wait_until(
            lambda: any(request.canvases for request in gateway.endpoint.requests)
        )
        gateway.endpoint.hold()
        await gateway.api.wait_until(lambda: len(team.texts()) == 2)
        gateway.api.inject_fault(BotApiFault.drop(), "leaveChat")
        note = find_note(await browser.act(f"{path}/leave"))
        assert note.startswith("The bot has left “Team”. But Telegram did not confirm it")
        await wait_until_cut(gateway)
        await browser.read(f"{path}/leave", 404)

        other = open_group(gateway.api, gateway.ann, chat=team.group.chat.id - 1)
        await other.wait_for_texts(1)
        note = find_note(await browser.act(f"/groups/{other.group.chat.id}/leave"))
        assert note == "The bot has left “Team”."
        assert not other.group.chat.bot_member.is_present
    entries = [entry for entry in await load_audit(gateway.settings.database_url) if "group" in entry.subject]
    title = {"title": "Team"}
    assert [(entry.who, entry.via, entry.what, entry.before, entry.after) for entry in reversed(entries)] == [
        (ANN, "page", "let in", None, title),
        (ANN, "page", "left", title, None),
        (ANN, "telegram", "let in", None, title),
        (ANN, "page", "left", title, None),
    ]


REFUSALS: tuple[tuple[str, int, str], ...] = (
    ("4711/block", 404, "Nobody who is in, blocked or waiting has the number 4711."),
    ("-5/block", 404, "has the number -5."),
    (f"{HOSTILE}/block".replace("/", "%2F", 1), 404, ""),
    ("9999999999999999999999/block", 404, "This is no number"),
    ("٣/block", 404, "This is no number"),
    (f"{CY}/block", 409, "Cy is blocked now."),
    (f"{CY}/remove", 409, "Cy is blocked now."),
    (f"{CY}/let-in", 409, "Cy is blocked now."),
    (f"{MEMBER}/unblock", 409, "is a member now."),
    (f"{MEMBER}/let-in", 409, "is a member now."),
    (f"{ANN}/unblock", 409, "Ann is an admin now."),
    (f"{ANN}/dance", 404, "There is no such page."),
    ("groups/-7/leave", 404, "The bot is in no group with the number -7."),
    (f"groups/{MEMBER}/leave", 404, "The bot is in no group"),
    (f"groups/{GROUP}/let-in", 409, "is let in now."),
    (f"groups/{GROUP}/remove", 404, "There is no such page."),
)


async def test_what_does_not_fit_is_a_page_and_changes_nothing(database: Database, database_url: str):
    await let_in(database, now=time.time())
    async with database.transaction() as tx:
        await people.put(tx, DAN, "Dan", "admin", now=time.time())
        await people.remove(tx, DAN, now=time.time())
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        for path, status, words in REFUSALS:
            for answer in (
                await page.post(f"/admin/people/{path}", {}),
                await page.http.get(f"/admin/people/{path}"),
            ):
                assert answer.status_code == status, path
                assert words in unescape(answer.text), path
                assert "<img" not in answer.text
        own = await page.post(f"/admin/people/{ANN}/block", {})
        assert (own.status_code, "This is the last admin." in own.text) == (409, True)
        assert await list_changes(database) == []
        answer = await page.http.post(f"/admin/people/{MEMBER}/block", data={"csrf": "forged"})
        assert answer.status_code == 403
        answer = await page.http.post(
            f"/admin/people/{MEMBER}/block",
            data={"csrf": page.csrf_token},
            headers={"origin": "https://evil.example"},
        )
        assert answer.status_code == 403
        assert await list_changes(database) == []


async def test_own_role_and_admins_of_the_settings_stay(database: Database, database_url: str):
    deps = UpdateHarness(database, configured_admins=frozenset({CY})).deps
    async with database.transaction() as tx:
        await people.put(tx, MEMBER, "Bob", "admin", now=time.time())
        await people.put(tx, CY, "Cy", "admin", now=time.time())
    gateway = build_running_gateway(database, deps=deps)
    async with open_admin_page(database, database_url, gateway=gateway, admin_ids=str(CY)) as page:
        table = (await page.get_text("/admin/people")).partition("<tbody>")[2].partition("</tbody>")[0]
        assert re.findall(r"/admin/people/(\d+)/(\w+)", table) == [
            (str(MEMBER), "remove"),
            (str(MEMBER), "block"),
        ]
        for person, words in (
            (ANN, "This is you: only another admin"),
            (CY, "through the setting ADMIN_IDS"),
        ):
            for act in ("remove", "block"):
                answer = await page.post(f"/admin/people/{person}/{act}", {})
                assert (answer.status_code, words in answer.text) == (409, True)
        assert await list_changes(database) == []
        answer = await page.post(f"/admin/people/{MEMBER}/remove", {})
        assert answer.status_code == 303
        [entry] = await list_changes(database)
        assert (entry.who, entry.via, entry.what, entry.before) == (
            *(ANN, "page", "removed"),
            {"role": "admin", "name": "Bob"},
        )


async def test_the_owner_of_the_machine_decides_too(database: Database, database_url: str):
    await let_in(database, now=time.time())
    harness = UpdateHarness(database)
    await harness.groups.load(database)
    gateway = build_running_gateway(database, deps=harness.deps)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        assert (await page.http.post(await page.create_link(None))).status_code == 303
        token = find_csrf_token(await page.get_text("/admin/people"))
        for path, status in (
            (f"{DAN}/let-in", 303),
            (f"groups/{GROUP - 1}/let-in", 303),
            (f"{ANN}/block", 409),
        ):
            answer = await page.http.post(f"/admin/people/{path}", data={"csrf": token})
            assert answer.status_code == status, path
        text = await page.get_text("/admin/people")
        assert text.count("the owner of the machine") == 2
        assert [(entry.who, entry.via, entry.what) for entry in await list_changes(database)] == [
            (None, "page", "let in")
        ] * 2
        async with database.read_transaction() as tx:
            decision = await describe_decision(tx, DAN)
        assert str(decision) == f"{HOSTILE} got access from an admin."


async def test_who_is_decided_about_meanwhile_keeps_that_decision(database: Database, database_url: str):
    await let_in(database, now=time.time())
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        await page.get_text(f"/admin/people/{MEMBER}/block")
        async with database.transaction() as tx:
            await people.remove(tx, MEMBER, now=time.time())
        answer = await page.post(f"/admin/people/{MEMBER}/block", {})
        assert (answer.status_code, "Nobody who is in" in answer.text) == (404, True)
        answers = await asyncio.gather(*(page.post(f"/admin/people/{DAN}/block", {}) for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [303, 409, 409, 409]
        assert [entry.what for entry in await list_changes(database)] == ["blocked"]


async def test_the_page_without_a_gateway_shows_the_commands(database: Database, database_url: str):
    await let_in(database, now=time.time())
    async with open_admin_page(database, database_url) as page:
        text = await page.get_text("/admin/people")
        for command in (
            f"/people remove {MEMBER}, /people block {MEMBER}",
            f"/people remove {CY}<",
            "/groups<",
        ):
            assert command in text
        assert f"/people add {DAN}, /people block {DAN}" in text
        assert "This page only shows." in text
        assert f"/admin/people/{MEMBER}/" not in text
        for path in (f"{MEMBER}/block", f"groups/{GROUP}/leave"):
            assert "only shows" in await page.get_text(f"/admin/people/{path}", 403)
            assert (await page.post(f"/admin/people/{path}", {})).status_code == 403
        assert await list_changes(database) == []
