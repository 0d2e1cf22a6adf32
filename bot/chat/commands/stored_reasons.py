"""Translates why a turn thinks and where it is answered, which is stored in English. Pure."""

import re

from bot.translations.formats import format_number, format_series, format_share
from bot.translations.translator import Translator, translatables

_REASONS = translatables(
    "{reason}; {cost}",
    "no tools are offered",
    "you asked for it: /think {setting}",
    "you asked for an answer with thinking",
    "it is set for all chats: THINKING={setting}",
    "it was not begun: the day's allowance was used up",
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
    """Translate a stored reason, with its values; what is none stays as it is."""
    for reason in _REASONS:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(reason))
        if match := re.fullmatch(pattern, text):
            values = match.groupdict().items()
            return translate(reason, **{name: explain_stored(translate, value) for name, value in values})
    if re.fullmatch(r"\d+%", text):
        return format_share(translate, int(text[:-1]) / 100)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return format_number(translate, float(text), decimals=1)
    words = text.split(", ")
    if len(words) == 1:
        return text
    return format_series(translate, (explain_stored(translate, word) for word in words))
