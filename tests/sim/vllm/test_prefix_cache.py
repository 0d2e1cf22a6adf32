from dataclasses import replace
from typing import Any

import pytest

from bot.sim.gemma.tokens import split_blocks
from bot.sim.vllm.prefix_cache import PrefixCache
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import SimulatorClient, open_client

SYSTEM = {"role": "system", "content": "You are a helpful assistant of few words. " * 20}
TOOLS = [
    {"type": "function", "function": {"name": f"tool{n}", "description": "It does a thing. " * 8}}
    for n in range(16)
]
DENSE = replace(ServerProfile(), dense_cache=True)


async def cached_and_prompt_tokens(
    player: SimulatorClient, *messages: Any, thinking: bool = False, **fields: Any
) -> tuple[int, int]:
    """Cached tokens of a request, and its prompt tokens."""
    body = {
        "messages": [SYSTEM, *messages],
        "tools": TOOLS,
        "chat_template_kwargs": {"enable_thinking": thinking},
    }
    usage = (await player.send({**body, **fields})).body["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def is_nearly_all(tokens: tuple[int, int]) -> bool:
    return tokens[1] - 64 < tokens[0] < tokens[1]


async def test_the_same_prompt_hits_and_the_other_way_of_thinking_does_not() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        assert (await cached_and_prompt_tokens(player, user("q")))[0] == 0
        assert is_nearly_all(await cached_and_prompt_tokens(player, user("q")))
        assert (await cached_and_prompt_tokens(player, user("q"), thinking=True))[0] == 0
        assert is_nearly_all(await cached_and_prompt_tokens(player, user("q")))
        assert (await cached_and_prompt_tokens(player, user("q"), cache_salt="mine"))[0] == 0


@pytest.mark.parametrize(("profile", "second"), [(ServerProfile(), False), (DENSE, True)])
async def test_users_share_a_head_from_the_third_on_and_at_once_in_a_dense_cache(
    profile: ServerProfile, second: bool
) -> None:
    async with open_client(ScriptedEndpoint(profile)) as player:
        hits = [
            await cached_and_prompt_tokens(player, user(f"{name} asks")) for name in ("anna", "bert", "carl")
        ]
    assert hits[0][0] == 0
    assert (hits[1][0] > 0) == second
    assert is_nearly_all(hits[2])


@pytest.mark.parametrize(("profile", "reused"), [(ServerProfile(), False), (DENSE, True)])
async def test_only_a_dense_cache_serves_generated_tokens_again(profile: ServerProfile, reused: bool) -> None:
    answer = "word " * 150
    async with open_client(ScriptedEndpoint(profile)) as player:
        first = await cached_and_prompt_tokens(player, user(f"@@say:{answer.strip()}@@"))
        history = [user(f"@@say:{answer.strip()}@@"), {"role": "assistant", "content": answer}]
        hit, _ = await cached_and_prompt_tokens(player, *history, user("next"))
    assert (hit > first[1]) == reused
    assert hit >= first[1] - 40


async def test_prompts_that_part_are_met_again_where_they_parted() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        await cached_and_prompt_tokens(player, user("q"))
        other_order = await cached_and_prompt_tokens(player, user("q"), tools=TOOLS[::-1])
        fewer = await cached_and_prompt_tokens(player, user("q"), tools=TOOLS[:8])
        more = await cached_and_prompt_tokens(player, user("q"), tools=[*TOOLS, TOOLS[0]])
    assert other_order[0] == 0
    assert 0 < fewer[0] < 300
    assert fewer[0] < more[0] < 1200


async def test_a_loop_step_starts_where_the_last_prompt_ended() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "tool1", "arguments": "{}"}}
    rounds: list[Any] = []
    async with open_client(ScriptedEndpoint()) as player:
        _, before = await cached_and_prompt_tokens(player, user("q"))
        for _ in range(3):
            rounds += [
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "a", "content": "result " * 60},
            ]
            hit, prompt = await cached_and_prompt_tokens(player, user("q"), *rounds)
            assert before - 40 < hit <= before
            before = prompt


def test_the_least_recently_used_blocks_leave_and_the_head_leaves_last() -> None:
    cache = PrefixCache(dense=True, capacity=15)
    long, count = split_blocks("word " * 330)
    other_blocks, other_count = split_blocks("other " * 330)
    assert cache.admit(long, count).created_tokens == 10 * 32
    assert cache.admit(long, count).hit_tokens == 10 * 32
    cache.admit(other_blocks, other_count)
    assert cache.admit(long, count).hit_tokens == 5 * 32
    assert cache.queries == 3 * count + other_count


def test_a_prompt_is_never_served_to_its_last_token() -> None:
    cache = PrefixCache()
    blocks, count = split_blocks("1" * 64)
    assert count == 64
    cache.admit(blocks, count)
    assert cache.admit(blocks, count).hit_tokens == 32
