"""Any chunk of a server is read or refused, and the reply can be parsed and stored."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.agent.reply_parser import parse_reply
from bot.db.conversations.calls import _to_columns
from bot.llm.stream import MAX_MODEL_CHARS, StreamAccumulator, make_epoch_clock
from tests.support.offered_tools import TOOLS

odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, 2**70, 10**400, -1])
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def partial_dicts(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these keys, each right or odd; or something odd altogether."""
    return st.fixed_dictionaries({}, optional={key: value | odd for key, value in fields.items()}) | odd


function = partial_dicts(name=st.sampled_from(["clock", "calculate"]), arguments=st.just("{}"))
call_fragment = partial_dicts(id=st.just("a"), index=st.integers(0, 2), function=function)
delta = partial_dicts(
    content=st.just("Hi."), reasoning=st.just("Hm."), tool_calls=st.lists(call_fragment, max_size=3)
)
choice = partial_dicts(delta=delta, finish_reason=st.sampled_from(["stop", "length", "tool_calls"]))
details = partial_dicts(cached_tokens=st.integers(0, 9), reasoning_tokens=st.integers(0, 9))
usage = partial_dicts(
    prompt_tokens=st.integers(0, 9), completion_tokens=st.integers(0, 9), prompt_tokens_details=details
)
chunk = partial_dicts(
    id=st.just("chatcmpl-1"),
    system_fingerprint=st.just("vllm"),
    choices=st.lists(choice, max_size=2),
    usage=usage,
    metrics=partial_dicts(queue_time_ms=st.floats(0, 9)),
)


def test_a_model_of_a_name_without_end_is_known_by_its_beginning():
    accumulator = StreamAccumulator(make_epoch_clock())
    accumulator.add_chunk({"model": "gemma" * 200_000})
    accumulator.add_chunk({"model": None})
    assert accumulator.build_reply(is_ended=True).model == "gemma" * (MAX_MODEL_CHARS // 5)


@given(st.lists(chunk, max_size=3))
def test_any_chunks_are_read_or_refused_and_the_reply_can_be_parsed_and_stored(chunks: list[Any]):
    accumulator = StreamAccumulator(make_epoch_clock())
    for chunk_ in chunks:
        try:
            accumulator.add_chunk(chunk_)
        except ValueError:
            break
    reply = accumulator.build_reply()
    assert isinstance(reply.finish_reason, str | None)
    parse_reply(reply, TOOLS)
    assert all(is_storable(value) for value in _to_columns(reply).values())


def is_storable(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.encode()) or value == ""
    if isinstance(value, int):
        return abs(value) < 2**63
    return value is None or isinstance(value, float)


def test_invalid_counts_are_unknown_not_zero():
    accumulator = StreamAccumulator(make_epoch_clock())
    accumulator.add_chunk({"choices": [], "usage": {"prompt_tokens": True, "completion_tokens": -3}})
    usage_ = accumulator.build_reply().usage
    assert (usage_.prompt_tokens, usage_.completion_tokens, usage_.cached_tokens) == (None, None, None)
    assert json.dumps(_to_columns(accumulator.build_reply()))
