"""Single calls that want one tool each, with thinking and without: how often the right call comes back.

Owns the cases and their judgement; a call counts as right by the tool's own schema and by what was plainly
asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bot.agent.tool_calls import Wanted, judge_call, read_json
from bot.agent.toolbox import Toolbox
from bot.bench.harness.sample_tools import with_stand_ins
from bot.domain import Message, ModelRequest, Reply
from tools.base import Tool

MOST = 2048  # tokens, a thought included

Verdict = Literal["right", "mended", "wrong"]


@dataclass(frozen=True, slots=True)
class Case:
    """A message, the call it wants, and what must stand in the call's arguments: each text somewhere in its
    value.
    """

    text: str
    tool: str
    call: Mapping[str, object]
    must: Mapping[str, str]


CASES = (
    Case("What is the weather in Lisbon right now?", "weather", {"place": "Lisbon"}, {"place": "lisbon"}),
    Case(
        "Convert 120 EUR to JPY at today's rate.",
        "convert_currency",
        {"amount": 120, "source": "EUR", "target": "JPY"},
        {"amount": "120", "source": "eur", "target": "jpy"},
    ),
    Case("What time is it in Tokyo right now?", "clock", {"zone": "Asia/Tokyo"}, {"zone": "tokyo"}),
    Case(
        "Search the web for folding bike reviews.",
        "search_web",
        {"query": "folding bike reviews"},
        {"query": "bike"},
    ),
    Case(
        "Work out exactly what 19 % of 84.50 is.",
        "calculate",
        {"expression": "19% of 84.50"},
        {"expression": "84.5"},
    ),
    Case(
        "Read https://example.org/menu for me.",
        "fetch_page",
        {"url": "https://example.org/menu"},
        {"url": "https://example.org/menu"},
    ),
    Case(
        "Remind me on 2030-05-01 at 09:00 UTC to water the plants.",
        "remind_me",
        {"when": "2030-05-01T09:00Z", "text": "Water the plants"},
        {"when": "2030-05-01", "text": "plants"},
    ),
    Case(
        "Open an issue in acme/site: its title is Slow search, its text that results take ten seconds.",
        "create_issue",
        {"project": "acme/site", "title": "Slow search", "body": "Results take ten seconds."},
        {"project": "acme/site", "title": "slow search"},
    ),
)


def offered() -> Toolbox:
    """The tools every case is offered: the house's own and the bench's stand-ins."""
    return Toolbox(with_stand_ins())


def asking(case: Case, box: Toolbox, *, thinking: bool) -> ModelRequest:
    """The request of a case."""
    user = (Message("user", case.text),)
    return ModelRequest(user, box.definitions, "auto", thinking, MOST, session="bench", lane="bench")


def judged(reply: Reply, case: Case, tools: Mapping[str, Tool]) -> Verdict:
    """Whether the reply holds the one call that was wanted: as it came, only once mended, or not."""
    if len(reply.calls) != 1 or reply.finish_reason == "length":
        return "wrong"
    call = reply.calls[0]
    wanted = judge_call(call, tools)
    if not isinstance(wanted, Wanted) or wanted.call.name != case.tool or not _fits(wanted.arguments, case):
        return "wrong"
    as_it_came = call.name == case.tool and _same(call.arguments, wanted.arguments)
    if as_it_came:
        return "right"
    return "mended"


def _fits(arguments: Mapping[str, Any], case: Case) -> bool:
    return all(text in str(arguments.get(key, "")).lower() for key, text in case.must.items())


def _same(came: str, checked: Mapping[str, Any]) -> bool:
    """Whether every argument stood there already with the value it was checked to."""
    given = read_json(came)
    return isinstance(given, dict) and all(checked.get(key) == value for key, value in given.items())


def some(*, quick: bool) -> Sequence[Case]:
    """The cases of a run."""
    if quick:
        return CASES[:2]
    return CASES
