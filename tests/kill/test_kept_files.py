"""Killed around the commits of a tap on Keep: the file is kept once, and that is said."""

import pytest

from tests.kill.conftest import OpenEnvironment


@pytest.mark.parametrize("when", ["before 1", "after 1", "before 2", "after 2"])
async def test_around_the_commits_of_a_tap_on_keep(surround: OpenEnvironment, when: str):
    environment = await surround()
    environment.ann.send_document("plan.txt", content=b"Launch in May.", caption="@@say:Read.@@")
    await environment.wait_for_answers("Read.")
    await environment.gateway.while_alive(environment.wait_until_idle())
    await environment.gateway.arm(when)
    environment.ann.tap(environment.messages()[-1], "Keep")
    await environment.gateway.wait_for_exit()
    await environment.gateway.start()
    told = "Kept until you delete it: “plan.txt”. /files lists what I keep here."
    await environment.until(lambda: told in environment.texts() or environment.doubtful_messages())
    assert environment.load_rows("select name from kept_files") == [("plan.txt",)]
    assert environment.load_rows("select text, size from attachments") == [(None, 0)]
