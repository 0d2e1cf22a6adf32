"""One person against another, through the whole gateway: what one sends takes no more than a share."""

from pathlib import Path

import pytest

from bot.telegram.incoming import downloads
from bot.telegram.incoming.file_places import MAX_PLACES, MAX_PLACES_PER_PERSON
from tests.support.cache_warmup import wait_until
from tests.support.endpoint.server import ScriptedEndpoint, reply_with
from tests.support.gateway import ADMIN, running_gateway
from tests.support.telegram.server import BotApiFault

BOB = 8


async def test_files_in_many_topics_of_one_person_leave_places_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(downloads, "_READ_TIMEOUT_SECONDS", 600.0)
    endpoint = ScriptedEndpoint(brain=reply_with("Read."))
    async with running_gateway(tmp_path, endpoint, access="open") as gateway:
        ann = gateway.ann
        bob = gateway.api.person(BOB, "Bob")
        held = gateway.api.inject_fault(
            BotApiFault.hang(), "getFile", times=None, when=lambda _: not bob_has_written
        )
        bob_has_written = False
        for number in range(2 * MAX_PLACES):
            topic = ann.create_topic(f"Topic {number}")
            ann.send_document(f"{number}.txt", content=b"words", caption="Read it.", thread=topic)
        await wait_until(lambda: held.hit_count >= MAX_PLACES_PER_PERSON)
        bob_has_written = True
        bob.send_document("mine.txt", content=b"words", caption="Read it.")
        assert await gateway.wait_for_texts(chat=BOB) == ["Read."]
        assert held.hit_count == MAX_PLACES_PER_PERSON
        assert gateway.texts(ADMIN) == []
