"""kill -9 between the making of a file and its arrival: it comes once, and what is unknown is asked once."""

import pytest

from bot.sim.vllm.server import ChatRequest
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import UNSURE, KillEnvironment
from tests.kill.gateway import PATIENCE
from tests.support.endpoint.server import ScriptedEndpoint, ScriptedReply

CODE = "".join(f"a{number} = {number**3 % 977}\n" for number in range(370))


def list_files(environment: KillEnvironment) -> list[str]:
    """The names of the files that the chat has."""
    documents = [message.raw["document"] for message in environment.messages() if "document" in message.raw]
    return [document["file_name"] for document in documents]


async def test_between_a_stored_file_and_the_end_of_its_turn(surround: OpenEnvironment):
    endpoint = ScriptedEndpoint()
    script = endpoint.brain

    def hold_after_the_tool(request: ChatRequest) -> str | ScriptedReply:
        if len(endpoint.requests) == 2:
            endpoint.hold()
        return script(request)

    endpoint.brain = hold_after_the_tool
    environment = await surround(endpoint)
    environment.ann.send(f"{environment.bells.call('draw', 'a')} @@say:Drawn.@@")
    await endpoint.wait_until(
        lambda: [bool(request.seated_at) for request in endpoint.requests] == [True, True], PATIENCE
    )
    assert environment.load_rows("select 1 from outbox_files where outbox is null")
    await environment.gateway.kill()
    endpoint.release()
    await environment.gateway.start()
    await environment.until(lambda: list_files(environment))
    await environment.wait_until_idle()
    assert (environment.texts()[0], list_files(environment)) == ("Drawn.", ["bell.txt"])
    assert environment.bells.rung["a"] == 1


@pytest.mark.parametrize("arrives", [True, False])
async def test_around_the_upload_of_long_code(surround: OpenEnvironment, arrives: bool):
    environment = await surround(model_max_tokens=4096)
    upload = environment.freeze_at("sendDocument", arrives=arrives)
    environment.ann.send(f"@@say:```py\n{CODE}```@@")
    await environment.until(lambda: upload.hit_count)
    await environment.gateway.restart()
    await environment.until(lambda: environment.doubtful_messages())
    await environment.wait_until_idle()
    assert list_files(environment) == ["code.py"] * arrives
    assert environment.texts().count(UNSURE) == 1
    shown = "\n".join(text for text in environment.texts() if text != UNSURE)
    assert shown.split() == CODE.split()
