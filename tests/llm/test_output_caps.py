from dataclasses import replace

from bot.domain import Reply, Usage
from bot.llm.output_caps import Caps
from tests.support.offered_tools import reply


def ended(tokens: int | None, finish: str = "length") -> Reply:
    return replace(reply("words", finish=finish), usage=Usage(completion_tokens=tokens))


def sure(*replies: Reply, allowed: int = 1024) -> list[bool]:
    caps = Caps()
    return [caps.sure(one, allowed) for one in replies]


def test_three_replies_cut_after_one_canvas_make_it_sure_and_it_is_said_once():
    assert sure(*[ended(256)] * 5) == [False, False, True, False, False]


def test_shorter_replies_and_unknown_counts_say_nothing_either_way():
    assert sure(ended(256), ended(20, "stop"), ended(None), ended(256), ended(256)) == [False] * 4 + [True]


def test_one_longer_reply_clears_the_suspicion():
    assert sure(ended(256), ended(256), ended(257, "stop"), ended(256), ended(256)) == [False] * 5


def test_a_reply_that_was_allowed_no_more_or_ended_by_itself_is_none():
    assert sure(*[ended(256)] * 4, allowed=256) == [False] * 4
    assert sure(*[ended(256, "stop")] * 4) == [False] * 4
