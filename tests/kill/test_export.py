"""kill -9 while an export is made and sent: it comes once, and what is unknown is asked once."""

from functools import partial

import pytest

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import UNSURE, KillEnvironment


def count_exports(environment: KillEnvironment) -> int:
    documents = [message.raw["document"] for message in environment.messages() if "document" in message.raw]
    return sum(document["file_name"].endswith("-1.json") for document in documents)


async def wait_for_export(environment: KillEnvironment, number: int) -> None:
    """Wait until so many exports have come or are in doubt."""
    await environment.until(
        lambda: count_exports(environment) + len(environment.doubtful_messages()) >= number
    )
    await environment.wait_until_idle()


@pytest.mark.parametrize("arrives", [True, False])
async def test_an_export_comes_once_or_is_said_to_be_in_doubt(surround: OpenEnvironment, arrives: bool):
    environment = await surround()
    environment.ann.send("Hello @@say:Hi.@@")
    await environment.until(lambda: "Hi." in environment.texts())
    upload = environment.freeze_at("sendMediaGroup", arrives=arrives)
    environment.ann.send("/export")
    await environment.until(lambda: upload.hit_count)
    await environment.gateway.restart()
    await environment.until(environment.doubtful_messages)
    await environment.wait_until_idle()
    assert count_exports(environment) == arrives
    assert environment.texts().count(UNSURE) == 1


async def test_around_the_commits_of_an_export(surround: OpenEnvironment):
    environment = await surround()
    environment.ann.send("Hello @@say:Hi.@@")
    await environment.wait_for_answers("Hi.")
    for number, moment in enumerate(("before 2", "after 2", "before 4", "after 4"), start=1):
        await environment.gateway.arm(moment)
        environment.ann.send("/export")
        await environment.revive(partial(wait_for_export, environment, number))
        assert count_exports(environment) + len(environment.doubtful_messages()) == number
    assert (
        environment.load_rows("select 1 from outbox_files where data is not null and file_id is not null")
        == []
    )
