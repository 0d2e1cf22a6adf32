"""Killed around the commits between a post to a hook and its end, and at random under many posts."""

from functools import partial

import httpx

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import PATIENCE, GatewayDied
from tests.kill.posts import add_hooks, post_under_kills
from tests.support.free_ports import find_free_port

MOMENTS = (
    ("bell", "before 1"),
    ("bell", "after 1"),
    ("bell", "after 3"),
    ("task", "before 2"),
    ("task", "after 4"),
    ("task", "before 6"),
)


async def test_each_of_300_accepted_posts_is_done_once_under_three_kills(surround: OpenEnvironment):
    port = find_free_port()
    environment = await surround(start=False, http_port=port)
    answers = await post_under_kills(environment, port, posts=300, kills=3)
    assert answers[202] >= 300


async def test_around_the_commits_between_a_post_and_its_end(
    surround: OpenEnvironment, either_database: dict[str, str]
):
    """A program that got no answer posts again."""
    port = find_free_port()
    environment = await surround(start=False, http_port=port, **either_database)
    environment.gateway.lift_rate_limits()
    await environment.gateway.start()
    environment.ann.send("@@say:Hello.@@")
    await environment.until(lambda: "Hello." in environment.texts())
    secrets = await add_hooks(str(environment.settings["database_url"]))
    moments = (MOMENTS[1], MOMENTS[-1]) if either_database else MOMENTS
    for number, (name, moment) in enumerate(moments, start=1):
        await environment.wait_until_idle()
        await environment.gateway.arm(moment)
        await environment.revive(partial(post_until_accepted, environment, port, name, secrets[name], number))
        await environment.wait_until_idle()
        shown = [text for text in environment.texts() if text.endswith(f"post {number}.")]
        assert len(shown) == 1 or (not shown and environment.doubtful_messages())
    assert environment.load_rows("select count(*) from inbox where kind = 'hook'") == [(len(moments),)]
    environment.assert_all_accounted()


async def post_until_accepted(
    environment: KillEnvironment, port: int, name: str, secret: str, number: int
) -> None:
    """Post as a program does that sends again what nobody has answered, with the same key; wait for its end.

    Raises GatewayDied if that leaves it without an answer.
    """
    body = f"@@say:post {number}.@@" if name == "task" else f"post {number}."
    headers = {"authorization": f"Bearer {secret}", "idempotency-key": str(number)}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
        try:
            answer = await http.post(f"/hooks/{name}", content=body, headers=headers)
        except httpx.TransportError as error:
            await environment.gateway.wait_for_exit()
            raise GatewayDied from error
    assert answer.status_code == 202
    await environment.wait_until_idle()
