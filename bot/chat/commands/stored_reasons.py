"""Translates why a turn thinks and where it is answered, which is stored in English. Pure."""

import re

from bot.translations.formats import format_number, format_series, format_share
from bot.translations.translator import Translator, translatables

_REASONS = translatables(
    "no tools are offered",
    "you asked for it: /think {setting}",
    "you asked for an answer with thinking",
    "it is set for all chats: THINKING={setting}",
    "it was not begun: the day's canvases were used up",
    "in doubt: heavy by its words {words}, by the endpoint {read}",
    "several steps: {steps}",
    "find out",
    "plan",
    "work out",
    "book or change",
    "note",
    "remind",
    "send",
    "several links to read",
    "a list of tasks",
    "a comparison",
    "a plan",
    "several things at once",
    "no tool fits",
    "one step: {tools}",
    "it continues {tools}",
    "{tool} works best with thinking",
    "thinking is cheap here: about {tokens} tokens, {seconds} s",
    "thinking is slow here: about {tokens} tokens, {seconds} s",
    "the first endpoint answers unless it is down",
    "/deep asked for it",
    "the turn is a hard one",
    "{reason}, but the chat has not agreed to {host}",
    "{reason}, but the chat said no to {host}",
    "the chat says no to {host}",
    "there is no second endpoint any more",
    "the first endpoint did not answer",
    "the first endpoint refused the turn",
    "the second endpoint did not answer",
    "the second endpoint refused the turn",
)


def explain_stored(translate: Translator, text: str) -> str:
    """Translate stored reasons; what is none of them stays as it is."""
    return "; ".join(_explain_reason(translate, reason) for reason in text.split("; "))


def _explain_reason(translate: Translator, text: str) -> str:
    for reason in _REASONS:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(reason))
        if match := re.fullmatch(pattern, text):
            values = match.groupdict().items()
            return translate(reason, **{name: _format_value(translate, value) for name, value in values})
    return text


def _format_value(translate: Translator, value: str) -> str:
    if re.fullmatch(r"\d+%", value):
        return format_share(translate, int(value[:-1]) / 100)
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return format_number(translate, float(value), decimals=1)
    return format_series(translate, (_explain_reason(translate, word) for word in value.split(", ")))
