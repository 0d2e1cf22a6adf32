"""The chat page lets in who knows its address, from this machine and out of itself, and shows what Telegram
shows.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from bot.http_server import serve
from bot.sim.page import app as chatpage
from bot.sim.page import view
from bot.sim.page.app import ChatPage, PageNotice
from bot.sim.page.view import ChatView, ViewLabels
from bot.sim.telegram.server import FloodLimits, SimulatedPerson
from bot.sim.vllm.server import CHIME
from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import build_api

GROUP_ID = -100
NOTICE = PageNotice("All is simulated.", ("Really.",), "canvasgram setup")


@dataclass
class OpenPage:
    """A served page, a browser's client for it, and the bot's client for the simulated Telegram."""

    bot_api: ScriptedBotApi
    page: ChatPage
    url: str
    browser: httpx.AsyncClient
    telegram_url: str
    greetings: list[str]
    kills: list[str]

    @property
    def person(self) -> SimulatedPerson:
        return self.page.views[0].person

    async def post_action(self, action: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"Origin": self.url, "Content-Type": "application/json"} | headers
        content = body if isinstance(body, bytes) else json.dumps(body)
        return await self.browser.post(f"{self.page.path}{action}", content=content, headers=sent)

    async def call_bot_api(self, method: str, **params: Any) -> Any:
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
            answer = await client.post(f"{self.telegram_url}/bot{self.bot_api.token}/{method}", json=params)
        assert answer.json()["ok"], answer.text
        return answer.json()["result"]

    @contextlib.asynccontextmanager
    async def listen(self, view: int = 0) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """What a browser that shows a view is told, after what holds for the whole page."""
        async with self.browser.stream("GET", f"{self.page.path}events?view={view}") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            events = parse_events(stream.aiter_lines())
            name, page = await anext(events)
            assert (name, page["notice"]["line"]) == ("page", "All is simulated.")
            assert page["views"][2] == {"person": "Ben", "chat": "Group"}
            yield events


async def parse_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


@pytest.fixture
async def opened() -> AsyncIterator[OpenPage]:
    api = build_api(FloodLimits.unlimited())
    greetings, kills = list[str](), list[str]()
    ann, ben = api.person(7, "Ann"), api.person(8, "Ben")
    group = api.add_group(GROUP_ID, "Team", owner=ann, members=(ben,))
    private_labels, group_labels = ViewLabels("Private", "Bot", "bot"), ViewLabels("Group", "Team", "both")
    views = [
        ChatView(
            api,
            ann,
            ann.private_thread,
            private_labels,
            ("Why?",),
            on_first_open=lambda: greetings.append("hello"),
        ),
        ChatView(api, ann, group, group_labels),
        ChatView(api, ben, group, group_labels),
    ]
    page = ChatPage(api, NOTICE, views, lambda: kills.append("kill"), ":root{}")
    async with api.serve_on_loopback() as telegram, serve(page.app) as url, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(page.run())
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=60) as browser:
            yield OpenPage(api, page, url, browser, telegram, greetings, kills)
        page.close()
        running.cancel()


async def test_the_page_and_its_files_come_with_a_strict_policy(opened: OpenPage):
    for name, kind in {
        "": "text/html",
        "chat.css": "text/css",
        "palette.css": "text/css",
        "chat.js": "text/javascript",
    }.items():
        answer = await opened.browser.get(f"{opened.page.path}{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


async def test_the_page_has_no_inline_script_and_writes_text_only():
    for file in chatpage.STATIC_FOLDER.iterdir():
        text = file.read_text(encoding="utf-8")
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "onclick=",
            "style=",
        ):
            assert way not in text, (file.name, way)
    assert (chatpage.STATIC_FOLDER / "index.html").read_text().count("<script") == 1


async def test_without_the_secret_word_there_is_nothing(opened: OpenPage):
    for path in ("/", "/x/", "//", "/index.html", "/events"):
        assert (await opened.browser.get(path)).status_code == 404, path


async def test_only_the_pages_own_files_are_served(opened: OpenPage):
    for name in ("nothing.js", "..%2fchatpage.py", "../chatpage.py", "%2e%2e/chatpage.py", ".", "page"):
        assert (await opened.browser.get(opened.page.path + name)).status_code == 404, name


async def test_a_name_that_leads_here_by_rebinding_is_refused(opened: OpenPage):
    for host in ("evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example", ""):
        assert (await opened.browser.get(opened.page.path, headers={"Host": host})).status_code == 403, host


async def test_localhost_is_this_machine(opened: OpenPage):
    port = opened.url.rpartition(":")[2]
    assert (
        await opened.browser.get(opened.page.path, headers={"Host": f"localhost:{port}"})
    ).status_code == 200


async def test_another_site_may_not_even_read(opened: OpenPage):
    for site in ("cross-site", "same-site"):
        answer = await opened.browser.get(f"{opened.page.path}events", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403, site


FORGED: tuple[tuple[dict[str, str], int], ...] = (
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
)


async def test_a_forged_request_does_nothing(opened: OpenPage):
    for headers, status in FORGED:
        assert (await opened.post_action("send", {"text": "hi"}, **headers)).status_code == status, headers
    assert opened.person.chat.messages == []


SENSELESS: tuple[tuple[str, Any, int], ...] = (
    ("send", b"{", 400),
    ("send", b"\xff", 400),
    ("send", b"[" * 5000, 400),
    ("send", [], 400),
    ("send", {"text": " \n"}, 400),
    ("send", {"text": 5}, 400),
    ("send", {"text": "hi", "reply_to": "1"}, 400),
    ("send", {"text": "hi", "reply_to": 99}, 409),
    ("send", {"text": "x" * (64 * 1024)}, 413),
    ("tap", {"id": 1}, 400),
    ("tap", {"id": 99, "data": "x"}, 409),
    ("stop", {}, 409),
    ("nothing", {}, 405),
)


async def test_what_makes_no_sense_is_refused(opened: OpenPage):
    for deed, body, status in SENSELESS:
        assert (await opened.post_action(deed, body)).status_code == status, (deed, body)
    assert opened.person.chat.messages == []


async def test_what_is_written_arrives_in_telegram(opened: OpenPage):
    assert (await opened.post_action("send", {"text": "  hi \ud83d\ude00 \ud800 "})).status_code == 204
    (sent,) = opened.person.chat.messages
    assert sent.text == "hi 😀 ?"
    assert (await opened.post_action("send", {"text": "and", "reply_to": sent.message_id})).status_code == 204
    assert opened.person.chat.messages[1].raw["reply_to_message"]["message_id"] == sent.message_id


async def test_a_long_text_goes_as_several_messages(opened: OpenPage):
    await opened.post_action("send", {"text": "x" * 5000})
    assert [len(message.text) for message in opened.person.chat.messages] == [4096, 904]


PHOTO = b"\x89PNG\r\n\x1a\n..."


async def attach(opened: OpenPage, content: bytes, **params: str) -> httpx.Response:
    headers = {"Origin": opened.url, "Content-Type": "application/octet-stream"}
    path = f"{opened.page.path}attach"
    return await opened.browser.post(path, params=params, content=content, headers=headers)


async def test_a_photo_and_a_file_are_sent_and_the_photo_is_shown(opened: OpenPage):
    assert (await attach(opened, PHOTO, name="a.png", caption=" What? ")).status_code == 204
    assert (await attach(opened, b"%PDF", name="b.pdf")).status_code == 204
    photo, document = opened.person.chat.messages
    assert photo.raw["caption"] == "What?"
    assert document.raw["document"]["mime_type"] == "application/pdf"
    async with opened.listen() as event_stream:
        _, state = await anext(event_stream)
    shown_photo, shown_file = state["messages"]
    assert (shown_photo["text"], shown_photo["file"], shown_file["photo"]) == ("What?", None, None)
    assert shown_file["file"] == "b.pdf"
    served = await opened.browser.get(f"{opened.page.path}photos/{shown_photo['photo']}")
    assert (served.content, served.headers["content-type"]) == (PHOTO, "image/png")


async def test_a_voice_message_is_sent_and_played(opened: OpenPage):
    assert (await attach(opened, CHIME, name="a.ogg")).status_code == 204
    async with opened.listen() as event_stream:
        _, state = await anext(event_stream)
    voice = state["messages"][0]["voice"]
    served = await opened.browser.get(f"{opened.page.path}voices/{voice}")
    assert (served.content, served.headers["content-type"]) == (CHIME, "audio/ogg")
    assert (await opened.browser.get(f"{opened.page.path}voices/photo-9")).status_code == 404


async def test_what_is_no_photo_is_not_served(opened: OpenPage):
    await attach(opened, b"<script>alert(1)</script>", name="a.png")
    (document,) = opened.person.chat.messages
    for name in (document.raw["document"]["file_id"], "photo-9", ".."):
        assert (await opened.browser.get(f"{opened.page.path}photos/{name}")).status_code == 404, name


async def test_a_file_that_makes_no_sense_is_refused(opened: OpenPage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chatpage, "MAX_FILE_BYTES", 100)
    assert (await attach(opened, b"", name="a.txt")).status_code == 400
    assert (await attach(opened, b"x")).status_code == 400
    assert (await attach(opened, b"x" * 101, name="a.txt")).status_code == 413
    assert (await attach(opened, b"x", name="a.txt", caption="😀" * 513)).status_code == 413
    assert opened.person.chat.messages == []


async def test_an_own_message_is_edited_and_no_other(opened: OpenPage):
    own = opened.person.send("capitol").message_id
    answer = await opened.call_bot_api("sendMessage", chat_id=7, text="Hm")
    assert (await opened.post_action("edit", {"id": own, "text": " capital "})).status_code == 204
    assert opened.person.chat.messages[0].text == "capital"
    refused = ((own, "capital", 409), (answer["message_id"], "x", 409), (99, "x", 409), (own, " ", 400))
    for message_id, text, status in refused:
        assert (await opened.post_action("edit", {"id": message_id, "text": text})).status_code == status


async def test_a_browser_is_told_of_a_new_menu(opened: OpenPage):
    opened.person.send("/start")
    async with opened.listen() as event_stream:
        _, state = await anext(event_stream)
        assert state["commands"] == []
        menu = [{"command": "people", "description": "people"}]
        await opened.call_bot_api("setMyCommands", commands=menu, scope={"type": "chat", "chat_id": 7})
        assert await anext(event_stream) == ("commands", {"commands": menu})


KEYS = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}


async def test_a_browser_is_told_everything_at_first(opened: OpenPage):
    question = opened.person.send("/start it")
    await opened.call_bot_api("setMyCommands", commands=[{"command": "help", "description": "help"}])
    async with opened.listen() as event_stream:
        name, state = await anext(event_stream)
    assert (name, state["title"], state["isGroup"], state["suggestions"]) == ("all", "Bot", False, ["Why?"])
    assert state["commands"] == [{"command": "help", "description": "help"}]
    (message_json,) = state["messages"]
    assert (message_json["id"], message_json["mine"], message_json["text"]) == (
        question.message_id,
        True,
        "/start it",
    )
    assert message_json["entities"] == [{"type": "bot_command", "offset": 0, "length": 6}]


async def test_a_browser_sees_signs_of_life_and_can_stop_them(opened: OpenPage):
    opened.person.send("hi")
    async with opened.listen() as event_stream:
        await anext(event_stream)
        await opened.call_bot_api("sendChatAction", chat_id=7, action="typing")
        assert await anext(event_stream) == ("typing", {"id": None, "action": "typing"})
        await opened.call_bot_api("sendMessageDraft", chat_id=7, draft_id=1, text="", can_stop=True)
        assert (await anext(event_stream))[1]["draft"]["can_stop"] is True
        assert (await opened.post_action("stop", {})).status_code == 204
        assert await anext(event_stream) == ("draft", {"draft": None})


async def test_a_browser_sees_messages_come_change_and_go(opened: OpenPage):
    question = opened.person.send("hi").message_id
    async with opened.listen() as event_stream:
        await anext(event_stream)
        answer = await opened.call_bot_api(
            "sendMessage", chat_id=7, text="Hm", reply_parameters={"message_id": question}
        )
        name, message_json = await anext(event_stream)
        assert (name, message_json["mine"], message_json["edited"]) == ("message", False, False)
        assert message_json["reply"] == {"id": question, "name": "Ann", "text": "hi"}
        await opened.call_bot_api("editMessageText", chat_id=7, message_id=answer["message_id"], text="Sure.")
        name, message_json = await anext(event_stream)
        assert (name, message_json["edited"], message_json["text"]) == ("edited", True, "Sure.")
        reaction = [{"type": "emoji", "emoji": "👀"}]
        await opened.call_bot_api("setMessageReaction", chat_id=7, message_id=question, reaction=reaction)
        assert await anext(event_stream) == ("reaction", {"id": question, "reactions": ["👀"]})
        opened.page.show_breakdown(7, answer["message_id"], {"whole": 1})
        assert await anext(event_stream) == ("account", {"id": answer["message_id"], "whole": 1})
        await opened.call_bot_api("deleteMessage", chat_id=7, message_id=answer["message_id"])
        assert await anext(event_stream) == ("deleted", {"id": answer["message_id"]})
    async with opened.listen() as event_stream:
        _, state = await anext(event_stream)
    assert [message["reactions"] for message in state["messages"]] == [["👀"]]
    assert state["accounts"] == [{"id": answer["message_id"], "whole": 1}]


async def test_a_button_is_tapped_and_its_answer_shown(opened: OpenPage):
    opened.person.send("hi")
    answer = await opened.call_bot_api("sendMessage", chat_id=7, text="Sure?", reply_markup=KEYS)
    async with opened.listen() as event_stream:
        _, state = await anext(event_stream)
        assert state["messages"][1]["buttons"] == KEYS["inline_keyboard"]
        assert (await opened.post_action("tap", {"id": answer["message_id"], "data": "y"})).status_code == 204
        (tap,) = opened.bot_api.app.world.taps.values()
        await opened.call_bot_api("answerCallbackQuery", callback_query_id=tap.query_id, text="Done")
        assert await anext(event_stream) == ("answer", {"id": answer["message_id"], "text": "Done"})


async def test_the_gateway_is_killed_by_who_knows_the_page(opened: OpenPage):
    assert (await opened.post_action("kill", {}, Origin="http://evil.example")).status_code == 403
    assert opened.kills == []
    assert (await opened.post_action("kill", {})).status_code == 204
    assert opened.kills == ["kill"]


async def test_what_is_beside_a_chat_is_told_at_first_and_when_it_changes(opened: OpenPage):
    opened.page.show("turn", {"whole": 1}, 7)
    opened.page.show("turn", {"whole": 2}, GROUP_ID)
    async with opened.listen() as event_stream:
        _, state = await anext(event_stream)
        assert state["shown"] == {"turn": {"whole": 1}}
        opened.page.show("turn", {"whole": 1}, 7)
        opened.page.show("gateway", {"text": "down"})
        assert await anext(event_stream) == ("gateway", {"text": "down"})


async def test_a_draft_is_among_the_first_a_browser_is_told(opened: OpenPage):
    opened.person.send("hi")
    await opened.call_bot_api("sendMessageDraft", chat_id=7, draft_id=1, text="I wri", can_stop=False)
    async with opened.listen() as event_stream:
        _, state = await anext(event_stream)
    assert state["draft"]["text"] == "I wri"


async def test_the_first_browser_is_greeted_and_no_other(opened: OpenPage):
    for _ in range(2):
        async with opened.listen() as event_stream:
            await anext(event_stream)
    assert opened.greetings == ["hello"]


async def test_a_browser_that_is_far_behind_is_told_everything_afresh(
    opened: OpenPage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(view, "MOST_WAITING", 3)
    async with opened.listen() as event_stream:
        await anext(event_stream)
        for number in range(5):
            opened.page.show_breakdown(7, number, {})
        assert [(await anext(event_stream))[0] for _ in range(2)] == ["all", "account"]


async def test_when_events_were_lost_everything_is_told_afresh(opened: OpenPage):
    async with opened.listen() as event_stream:
        await anext(event_stream)
        for _ in range(1100):
            opened.person.send("hi")
        name, state = await anext(event_stream)
        assert (name, len(state["messages"])) == ("all", 1100)


async def test_a_group_is_shown_as_each_of_its_people_sees_it(opened: OpenPage):
    async with opened.listen(view=1) as of_ann, opened.listen(view=2) as of_ben:
        _, state = await anext(of_ann)
        assert (state["title"], state["status"], state["isGroup"]) == ("Team", "both", True)
        assert state["messages"] == []  # not that somebody came
        await anext(of_ben)
        assert (await opened.post_action("send?view=2", {"text": "/ask why?"})).status_code == 204
        shown = [(await anext(events))[1] for events in (of_ann, of_ben)]
        assert [(message["mine"], message["name"]) for message in shown] == [(False, "Ben"), (True, "Ben")]
        question = shown[0]["id"]
        refused = await opened.post_action("edit?view=1", {"id": question, "text": "how?"})
        assert refused.status_code == 409
        assert (await opened.post_action("edit?view=2", {"id": question, "text": "how?"})).status_code == 204
        assert [(await anext(events))[1]["text"] for events in (of_ann, of_ben)] == ["how?", "how?"]
        opened.page.show_breakdown(GROUP_ID, question, {"whole": 1})
        assert await anext(of_ann) == await anext(of_ben) == ("account", {"id": question, "whole": 1})
    assert opened.person.chat.messages == []
    for number in ("3", "-1", "x", "１"):
        assert (await opened.post_action(f"send?view={number}", {"text": "hi"})).status_code == 404


async def test_closing_the_page_ends_its_streams(opened: OpenPage):
    async with opened.listen() as event_stream:
        await anext(event_stream)
        opened.page.close()
        assert [event async for event in event_stream] == []
