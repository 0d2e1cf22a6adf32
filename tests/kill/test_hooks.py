"""Killed around every commit between a post to a hook and its end, and at random under many posts."""

import httpx
import pytest

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayDied
from tests.kill.posts import add_hooks, post_under_kills
from tests.support.free_ports import find_free_port


async def test_each_of_300_accepted_posts_is_done_once_under_three_kills(surround: OpenEnvironment):
    port = find_free_port()
    environment = await surround(start=False, http_port=port)
    answers = await post_under_kills(environment, port, posts=300, kills=3)
    assert answers[202] >= 300


async def test_around_every_commit_between_a_post_and_its_end(
    surround: OpenEnvironment, either_database: dict[str, str]
):
    """Before each odd commit and after each even one; a program that got no answer posts again."""
    port = find_free_port()
    environment = await surround(start=False, http_port=port, **either_database)
    environment.gateway.lift_rate_limits()
    await environment.gateway.start()
    environment.ann.send("@@say:Hello.@@")
    await environment.until(lambda: "Hello." in environment.texts())
    secrets = await add_hooks(str(environment.settings["database_url"]))
    for number in range(1, 13):
        name = "bell" if number < 6 else "task"
        commit = number if number < 6 else number - 5
        await environment.wait_until_idle()
        await arm_running(environment, f"{'before' if commit % 2 else 'after'} {commit}")
        await post_until_accepted(environment, port, name, secrets[name], number)
        try:
            await environment.gateway.while_alive(environment.wait_until_idle())
        except GatewayDied:
            await environment.gateway.wait_for_exit()
            await environment.gateway.start()
            await environment.wait_until_idle()
        shown = [text for text in environment.texts() if text.endswith(f"post {number}.")]
        assert len(shown) == 1 or (not shown and environment.doubtful_messages())
    assert environment.load_rows("select count(*) from inbox where kind = 'hook'") == [(12,)]
    await arm_running(environment, "after 1000000")
    environment.assert_all_accounted()


async def arm_running(environment: KillEnvironment, when: str) -> None:
    """Arm a gateway, which may have killed itself after all was done."""
    try:
        await environment.gateway.while_alive(environment.gateway.arm(when))
    except (GatewayDied, ProcessLookupError):
        await environment.gateway.wait_for_exit()
        await environment.gateway.start()
        await environment.gateway.arm(when)


async def post_until_accepted(
    environment: KillEnvironment, port: int, name: str, secret: str, number: int
) -> None:
    """Post as a program does that sends again what nobody has answered, with the same key."""
    body = f"@@say:post {number}.@@" if name == "task" else f"post {number}."
    headers = {"authorization": f"Bearer {secret}", "idempotency-key": str(number)}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
        for _ in range(2):
            try:
                answer = await http.post(f"/hooks/{name}", content=body, headers=headers)
            except httpx.TransportError:
                await environment.gateway.wait_for_exit()
                await environment.gateway.start()
                continue
            assert answer.status_code == 202
            return
    pytest.fail("it was not accepted by a gateway that ran")
