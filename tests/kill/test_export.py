"""kill -9 while an export is made and sent: it comes once, and what is unknown is asked once."""

import pytest

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import UNSURE, KillEnvironment
from tests.kill.gateway import GatewayDied


def count_exports(environment: KillEnvironment) -> int:
    documents = [message.raw["document"] for message in environment.messages() if "document" in message.raw]
    return sum(document["file_name"].endswith("-1.json") for document in documents)


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
    for number, when in enumerate(("before 2", "after 2", "before 3", "after 3", "before 4", "after 4")):
        seen = count_exports(environment) + len(environment.doubtful_messages())
        await environment.gateway.arm(when)
        environment.ann.send("/export")
        try:
            await environment.gateway.while_alive(
                environment.api.wait_until(lambda: count_exports(environment) > number)  # noqa: B023
            )
        except GatewayDied:
            await environment.gateway.wait_for_exit()
            await environment.gateway.start()
        await environment.until(
            lambda: count_exports(environment) + len(environment.doubtful_messages()) > seen  # noqa: B023
        )
        await environment.wait_until_idle()
        assert count_exports(environment) + len(environment.doubtful_messages()) == seen + 1
    assert (
        environment.load_rows("select 1 from outbox_files where data is not null and file_id is not null")
        == []
    )
