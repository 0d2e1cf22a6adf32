"""kill -9 during and after the download of attachments: they are fetched again only if not stored."""

from functools import partial

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.support import attachment_files
from tests.support.office_files import make_zip
from tests.support.telegram.server import BotApiFault


def count_pictures(environment: KillEnvironment) -> list[int]:
    """How many pictures each request to the endpoint held."""
    return [
        str(request.body["messages"]).count("data:image/jpeg;base64,")
        for request in environment.endpoint.requests
    ]


def count_fetches(environment: KillEnvironment) -> int:
    return len(environment.api.calls_of("getFile"))


async def test_in_the_middle_of_a_download(surround: OpenEnvironment):
    environment = await surround()
    held_call = environment.api.inject_fault(BotApiFault.hang(), "getFile")
    environment.ann.send_photo("@@say:a cat@@", content=attachment_files.make_image())
    await environment.until(lambda: held_call.hit_count)
    await environment.gateway.restart()
    await environment.wait_for_answers("a cat")
    assert count_pictures(environment) == [1]
    assert count_fetches(environment) == 2
    assert environment.load_rows("select kind from attachments") == [("image",)]


async def test_in_the_middle_of_an_album(surround: OpenEnvironment):
    environment = await surround()
    held_call = environment.api.inject_fault(BotApiFault.hang(), "getFile", skip=2)
    for number in range(3):
        environment.ann.send_photo(
            "@@say:three@@" if number == 0 else "",
            content=attachment_files.make_image(10 + number),
            album="a",
        )
    await environment.until(lambda: held_call.hit_count and count_fetches(environment) == 3)
    await environment.gateway.restart()
    await environment.wait_for_answers("three")
    assert count_pictures(environment) == [3]
    assert environment.load_rows("select count(*) from messages where role = 'user'") == [(1,)]


async def test_while_the_model_looks_at_it(surround: OpenEnvironment):
    """What was fetched is stored with the message: it is not fetched again, and the prompt is the same."""
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send_photo("@@say:a cat@@", content=attachment_files.make_image())
    await environment.wait_for_requests()
    await environment.gateway.kill()
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.wait_for_answers("a cat")
    assert count_pictures(environment) == [1, 1]
    assert count_fetches(environment) == 1
    first, second = environment.endpoint.requests
    assert first.body["messages"] == second.body["messages"]


async def test_around_the_commits_of_its_turn(surround: OpenEnvironment):
    environment = await surround()
    for chat, moment in enumerate(("after 2", "before 3", "after 3"), start=21):
        await environment.gateway.arm(moment)
        environment.api.person(chat).send_photo("@@say:a cat@@", content=attachment_files.make_image())
        await environment.revive(partial(wait_for_cat, environment, chat))
        assert count_pictures(environment)[-1] == 1
        query = f"select kind from attachments where person = {chat}"
        assert environment.load_rows(query) == [("image",)]


async def wait_for_cat(environment: KillEnvironment, chat: int) -> None:
    """Wait until the picture is answered, or that is in doubt."""
    await environment.until(lambda: "a cat" in environment.texts(chat) or environment.doubtful_messages(chat))
    await environment.wait_until_idle()


async def test_what_was_not_read_is_said_after_a_restart_too(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send_document("a.pdf", content=b"%PDF-1.7 nothing more", caption="@@say:Sorry.@@")
    await environment.wait_for_requests()
    await environment.gateway.kill()
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.wait_for_answers("(I couldn't use your file: it is damaged.)\n\nSorry.")
    assert environment.load_rows("select preface from turns") == [("",)]


async def test_while_it_answers_that_nothing_can_be_used(surround: OpenEnvironment):
    environment = await surround()
    await environment.gateway.arm("before 3")
    environment.ann.send_document("a.zip", content=make_zip({"a.txt": "x"}))
    await environment.gateway.wait_for_exit()
    await environment.gateway.start()
    await environment.until(environment.texts)
    await environment.wait_until_idle()
    environment.assert_all_accounted()
    [line] = environment.texts()
    assert line.startswith("I couldn't use your file a.zip: I can't read files of this kind")
    assert environment.endpoint.requests == []
