"""Messages of a group that name nobody, in the whole gateway: the simulated endpoint judges them."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.db.engine import open_database
from bot.db.tables import model_calls
from bot.sim.vllm.typed_reads import TypedQuestion
from bot.turns.recorded_reads import RecordedReads
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.group_chat import open_group, press


def judge_museum(question: TypedQuestion) -> tuple[float, float]:
    """Of the tests' messages, those about the museum are for the assistant."""
    newest = question.state.rpartition("[data: the newest message]")[2]
    return (0.95, 0.05) if "museum" in newest else (0.1, 0.9)


async def open_card(gateway: GatewayHarness) -> None:
    """Have Ann, an admin, open the card of the group."""
    shown = len(gateway.texts())
    gateway.ann.send("/groups")
    await gateway.wait_for_texts(shown + 1)
    await press(gateway, "Team")


async def wait_for_read(gateway: GatewayHarness) -> None:
    """Wait until it is known what the endpoint answered to a typed question."""
    known = select(model_calls.c.id).where(
        model_calls.c.purpose == "address", model_calls.c.outcome.is_not(None)
    )
    async with open_database(gateway.settings.database_url) as database, asyncio.timeout(60):
        while True:
            async with database.read_transaction() as tx:
                if (await tx.execute(known)).first() is not None:
                    return
            await asyncio.sleep(0.02)


@pytest.mark.sqlite
async def test_what_is_meant_is_answered_and_what_is_not_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(RecordedReads.read.__kwdefaults__ or {}, "timeout_seconds", 60.0)
    endpoint = ScriptedEndpoint(judge=judge_museum)
    async with running_gateway(tmp_path, endpoint, access="open", thinking="off") as gateway:
        team = open_group(gateway.api, gateway.ann, hears_everything=True)
        await team.wait_for_texts(1)
        team.ben.send("is the museum open?", thread=team.group)
        await open_card(gateway)
        gateway.ann.tap(gateway.ann.chat.bot_messages[-1], "Even when not named")
        await wait_for_read(gateway)  # it is asked whether it can
        await press(gateway, "Even when not named")
        assert (await team.wait_for_texts(2))[-1].startswith("From now on I also look at messages here")
        reads = len(endpoint.typed_questions)

        team.cleo.send("secret lunch at noon, Ben?", thread=team.group)
        asked = team.ben.send("when does the museum open? @@say:At ten.@@", thread=team.group)
        assert (await team.wait_for_texts(3))[-1] == "At ten."
        answer = team.group.chat.bot_messages[-1].raw
        assert answer["reply_to_message"]["message_id"] == asked.message_id
        team.cleo.send("and the museum on Monday? @@say:Closed.@@", thread=team.group)
        assert (await team.wait_for_texts(4))[-1] == "Closed."
        assert "the assistant: At ten." in endpoint.typed_questions[-1].state
        await gateway.api.wait_until(gateway.is_finished)
        assert len(endpoint.typed_questions) == reads + 3
        assert len(endpoint.requests) == 2
        prompt = endpoint.requests[-1].body["messages"]
        assert "secret" not in str(prompt)

        await open_card(gateway)
        assert "I also answer messages that seem meant for me" in gateway.texts()[-1]
        await press(gateway, "Only when named")
        team.ben.send("is the museum worth it?", thread=team.group)
        team.ben.send("/ask @@say:Yes.@@", thread=team.group)
        assert (await team.wait_for_texts(5))[-1] == "Yes."
        assert len(endpoint.typed_questions) == reads + 3
    contents = b"".join(path.read_bytes() for path in tmp_path.rglob("*.db"))
    assert b"museum open" in contents
    assert b"secret lunch" not in contents
