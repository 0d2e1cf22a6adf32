"""No English value stands in a translated text: what is stored in English is translated when it is shown."""

import gettext
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from bot.agent.heavy_turns.model import explain_heavy, explain_light
from bot.agent.thinking_policy import (
    ThinkingDecision,
    ThinkingEvidence,
    ThinkingSetting,
    decide_thinking,
    settle_doubt,
)
from bot.agent.tool_matching.index import build_index
from bot.chat.commands.stored_reasons import explain_stored
from bot.db.conversations.chat_settings import Consent, ContentKind
from bot.db.tools.approvals import ApprovalAnswer
from bot.db.tools.call_log import ToolCallRecord
from bot.domain import RefusalReason, ResultOutcome
from bot.telegram.incoming.poll_watch import LONG_FLOOD_SECONDS, PollWatch
from bot.tool_registry.formatting import format_call
from bot.tool_registry.grants import ADMINS, EVERYONE, Grantee, describe_grantee
from bot.translations.translator import ENGLISH, LANGUAGES, Translatable, Translator, load_translator
from bot.turns.endpoints import ModelEndpoint, choose_endpoint
from bot.turns.thought_costs import ThoughtCost, explain_cost
from bot.turns.turn_plan import WITH_THINKING_REASON
from tests.support.turn_harness import ScriptedModel

HOST = "MODELS.EXAMPLE"
CALL = ToolCallRecord(1, 4, "8", 8, "RING", "{}", 12, 10.0, 10.25, "ok", None, "done", "once", 7, 0.0, 9.0)


class UpperCase(gettext.NullTranslations):
    """Translates each text into capital letters, so that words which were not translated are seen."""

    def gettext(self, message: str) -> str:
        return re.sub(
            r"\{\w+\}|[^{]+", lambda part: part[0] if part[0][0] == "{" else part[0].upper(), message
        )

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid2)


UPPER_CASE = Translator("zh", UpperCase())


def find_english(text: str) -> list[str]:
    """The words that were not translated; `on` and `off` are the values of a command and a setting."""
    return [word for word in re.findall(r"[a-z]+", text) if word not in {"on", "off"}]


def list_thinking_reasons() -> Iterator[str]:
    no_tools = build_index([])
    for setting, is_default in product(get_args(ThinkingSetting), (True, False)):
        evidence = ThinkingEvidence(setting=setting, is_default=is_default)
        yield decide_thinking(["HELLO"], no_tools, evidence).reason
    yield settle_doubt(ThinkingDecision(False, "", 0.55, 0.0), 0.615, 0.5).reason
    for step in ("find", "plan", "turn", "act", "save", "remind"):
        yield explain_heavy({f"some {step}": 1.0, "some send": 1.0})
    for sign in ("two links", "two items", "some compare", "some plan", "none"):
        yield explain_heavy({sign: 1.0})
    yield explain_light([])
    yield explain_light(["WEATHER", "CLOCK"])
    for chance, tokens, thinking in ((0.4, 120.4, True), (0.6, 900.0, False)):
        cost = explain_cost(chance, 0.5, ThoughtCost(tokens, 1.6), thinking=thinking)
        assert cost is not None
        yield f"{explain_light([])}; {cost}"
    yield from ("it continues WEATHER, CLOCK", "WEATHER works best with thinking", WITH_THINKING_REASON)
    yield "it was not begun: the day's allowance was used up"


def list_endpoint_reasons() -> Iterator[str]:
    outside = ModelEndpoint("fallback", f"https://{HOST}/v1", ScriptedModel(), lambda: "GEMMA")
    consents = (Consent(), Consent(kinds=frozenset()), Consent(kinds=frozenset[ContentKind]({"text"})))
    for consent, deep, is_hard in product(consents, (True, False), (True, False)):
        yield choose_endpoint(outside, consent, deep=deep, wants_fallback=is_hard).reason.replace(
            HOST.lower(), HOST
        )
    for endpoint, failure in product(("first", "second"), ("refused the turn", "did not answer")):
        yield f"the {endpoint} endpoint {failure}"
    yield from ("there is no second endpoint any more", f"the chat says no to {HOST}")


@pytest.mark.parametrize("reason", sorted({*list_thinking_reasons(), *list_endpoint_reasons()}))
def test_why_a_turn_thinks_and_where_it_is_answered_is_translated(reason: str):
    assert find_english(explain_stored(UPPER_CASE, reason)) == []
    assert explain_stored(ENGLISH, reason).replace(", ", "") == reason.replace(", ", "")


def test_a_reason_of_another_version_stays_as_it_is():
    for language in LANGUAGES:
        assert explain_stored(load_translator(language), "one light tool: clock") == "one light tool: clock"


def test_values_of_a_reason_are_written_in_its_language():
    explain = explain_stored(load_translator("fr"), "in doubt: heavy by its words 55%, by the endpoint 61%")
    assert (
        explain == "dans le doute\u00a0: complexe à 55\u00a0% d’après ses mots, à 61\u00a0% d’après le modèle"
    )
    steps = explain_stored(load_translator("zh"), "several steps: find out, remind")
    assert steps == "多个步骤：查找、提醒"


def test_the_log_of_calls_is_translated():
    outcomes = [replace(CALL, outcome=outcome) for outcome in get_args(ResultOutcome)]
    states = [replace(CALL, outcome=None, state=state) for state in ("wanted", "running", "done")]
    refusals = [
        replace(CALL, outcome="refused", refusal=reason) for reason in (*get_args(RefusalReason), None)
    ]
    answers = [replace(CALL, answer=answer) for answer in (*get_args(ApprovalAnswer), None)]
    for call in (*outcomes, *states, *refusals, *answers):
        assert find_english(format_call(UPPER_CASE, call)) == []


def test_whom_a_grant_is_for_is_translated():
    for grantee in (EVERYONE, ADMINS, Grantee("person", 7), Grantee("chat", 8)):
        assert find_english(describe_grantee(UPPER_CASE, grantee)) == []


async def test_admins_read_in_their_language_that_telegram_wants_a_pause():
    alerts: list[str] = []

    class Alarm:
        async def alert_admins(self, text: Translatable) -> None:
            alerts.append(text(load_translator("ru")))

    await PollWatch(Alarm()).note_flood(5 * LONG_FLOOD_SECONDS)
    assert alerts == ["Telegram не отдаёт мне сообщения ещё 5 мин. Они ждут там, потом я на них отвечу."]
