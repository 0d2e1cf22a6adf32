"""Reactions of people to answers, in the whole gateway: stored as verdicts, and never answered."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.sim.telegram.chats import ChatMessage
from bot.usage.report_command import ReportOptions, render_report
from tests.support.cache_warmup import wait_until
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway
from tests.support.terminal_text import lay_out


def list_labels(message: ChatMessage) -> list[str]:
    return [button["text"] for button in message.buttons]


def load_verdicts(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as database:
        return [value for (value,) in database.execute("select value from verdicts order by turn")]


async def wait_for_verdicts(file: Path, *values: str | None) -> None:
    await wait_until(lambda: load_verdicts(file) == [*values])


async def wait_until_stored(file: Path, message: ChatMessage) -> None:
    """Wait until it is stored which message shows an answer: nobody reacts to it before."""
    query = "select 1 from outbox where message_id = ?"
    with closing(sqlite3.connect(file)) as database:
        await wait_until(lambda: database.execute(query, [message.message_id]).fetchone())


async def wait_for_labels(gateway: GatewayHarness, message: ChatMessage, *labels: str) -> None:
    await gateway.api.wait_until(lambda: list_labels(message) == [*labels])


async def read_thinking_rows(gateway: GatewayHarness) -> list[list[str]]:
    """The rows of the report's table of verdicts, by thinking."""
    report = await render_report(gateway.settings.database_url, ReportOptions(by="thinking"), now=2e9)
    text = lay_out(report)
    assert "Judged: 2 answers by reactions, 50 % bad." in text
    section = text.partition("What people think of answers")[2]
    return [line.split()[:4] for line in section.splitlines()]


@pytest.mark.sqlite
async def test_a_reaction_is_a_verdict_and_below_a_bad_answer_stands_an_offer(tmp_path: Path):
    file = tmp_path / "gateway.db"
    async with running_gateway(tmp_path, thinking="off") as gateway:
        ann = gateway.ann
        ann.send("@@say:one@@")
        await gateway.wait_for_texts()
        [answer] = gateway.api.chat(ADMIN).bot_messages
        await wait_until_stored(file, answer)
        ann.react(answer, "❤")
        await wait_for_verdicts(file, "good")
        ann.react(answer, "💩")
        await wait_for_labels(gateway, answer, "Answer again", "With thinking")
        ann.react(answer, "")
        await wait_for_verdicts(file, None)
        ann.react(answer, "👎")
        await wait_for_verdicts(file, "bad")
        assert (gateway.texts(), len(gateway.endpoint.requests)) == (["one"], 1)

        ann.tap(answer, "With thinking")
        await gateway.wait_for_texts(2)
        await wait_for_labels(gateway, answer)
        request = gateway.endpoint.requests[-1].body
        assert request["chat_template_kwargs"]["enable_thinking"]
        assert "one" not in [message["content"] for message in request["messages"]]
        newest = gateway.api.chat(ADMIN).bot_messages[-1]
        await wait_until_stored(file, newest)
        ann.react(newest, "👎")
        await wait_for_labels(gateway, newest, "Answer again")
        ann.react(newest, "👍")
        await wait_for_verdicts(file, "bad", "good")
        ann.send("/usage")
        await gateway.wait_for_texts(3)
        assert gateway.texts()[2].splitlines()[-1] == "Reactions, 30 d: 1 👍, 1 👎"
        ann.react(gateway.api.chat(ADMIN).bot_messages[-1], "👎")  # it is no answer
        rows = await read_thinking_rows(gateway)
        assert ["on", "1", "1", "0"] in rows
        assert ["off", "1", "0", "1"] in rows

        ann.send("/forget")
        await gateway.wait_for_texts(4)
        ann.tap(gateway.api.chat(ADMIN).bot_messages[-1], "Forget it all")
        await wait_for_verdicts(file)
    assert len(gateway.endpoint.requests) == 2
