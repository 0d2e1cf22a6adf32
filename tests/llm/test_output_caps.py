from dataclasses import replace

from bot.domain import Reply, Usage
from bot.llm.output_caps import OutputCapDetector
from tests.support.offered_tools import make_reply


def make_ended_reply(tokens: int | None, finish: str = "length") -> Reply:
    return replace(make_reply("words", finish=finish), usage=Usage(completion_tokens=tokens))


def detect_cap(*replies: Reply, max_tokens: int = 1024) -> list[bool]:
    caps = OutputCapDetector()
    return [caps.detect(one, max_tokens) for one in replies]


def test_three_replies_cut_after_one_canvas_make_it_sure_and_it_is_said_once():
    assert detect_cap(*[make_ended_reply(256)] * 5) == [False, False, True, False, False]


def test_shorter_replies_and_unknown_counts_say_nothing_either_way():
    assert detect_cap(
        make_ended_reply(256),
        make_ended_reply(20, "stop"),
        make_ended_reply(None),
        make_ended_reply(256),
        make_ended_reply(256),
    ) == [False] * 4 + [True]


def test_one_longer_reply_clears_the_suspicion():
    assert (
        detect_cap(
            make_ended_reply(256),
            make_ended_reply(256),
            make_ended_reply(257, "stop"),
            make_ended_reply(256),
            make_ended_reply(256),
        )
        == [False] * 5
    )


def test_a_reply_that_was_allowed_no_more_or_ended_by_itself_is_none():
    assert detect_cap(*[make_ended_reply(256)] * 4, max_tokens=256) == [False] * 4
    assert detect_cap(*[make_ended_reply(256, "stop")] * 4) == [False] * 4
