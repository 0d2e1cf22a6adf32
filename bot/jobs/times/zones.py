"""Time zones by the names people give them, and the error of words for a time. Pure."""

import re
from functools import partial

from bot.errors import ChangeRefused
from bot.translations.formats import format_series
from bot.translations.translator import DeferredText, translatable
from tools.base import ToolError
from tools.builtin.clock import find_named_zone, find_zone, list_close_zones, normalize_name

MAX_ANSWER_CHARS = 60
_BEFORE_CITY = re.compile(
    r"(?:(?:i'm|i am|i live|we're|we are|ich bin|ich wohne|ich lebe|wir sind|je suis|j'habite|estoy|vivo"
    r"|estou|moro|(?:я )?живу|(?:я )?(?:сейчас|зараз)|я|мы|ми) )?"
    r"(?:in|at|near|bei|aus|from|à|en|em|во?|у|из|із|з) "
    r"|(?:estou|moro|vivo) no |(?:sono|abito|vivo) a |我?(?:现在|現在)?(?:住?在|[来來]自) ?",
    re.IGNORECASE,
)
_CASE_ENDINGS = tuple("аеиіыя")
_NOMINATIVE_ENDINGS = ("", "а", "ь", "и", "я")
_DECLINED_WORDS = (  # of names of several words: Нижнем Новгороде, Ростове-на-Дону, Набережных Челнах
    (re.compile(r"^(\w+)(?:[ео]м|[ео]го) "), r"\1ии "),
    (re.compile(r"^(\w+)[еа] на "), r"\1 на "),
    (re.compile(r"^(\w+)ых (\w+)(?:ах|ов)$"), r"\1ые \2ы"),
)
_UTC_NAMES = frozenset({"UTC", "UCT", "GMT", "Zulu", "Universal", "Greenwich"})
_OFFSET = re.compile(r"\s*(?:(?:utc|gmt)?\s*[+-]\s*\d.*|(?:est|mst)\s*)", re.IGNORECASE)


class UnclearTime(ChangeRefused):
    """Words for a time that cannot be understood or meant; the text says why, and how to say it.

    `text` is translatable, with words to copy in backticks; a value of its placeholders that is a function
    translates itself. `has_reason`: it is known what is wrong; else the words are just no words for a time.
    `has_unknown_words`: they may be words for a time in a language that is not read.
    """

    def __init__(
        self, text: str, /, *, has_reason: bool = True, has_unknown_words: bool = False, **values: object
    ) -> None:
        unquoted = {  # a person's own backticks would copy something else
            name: value.replace("`", "'") if isinstance(value, str) else value
            for name, value in values.items()
        }
        super().__init__(text, **unquoted)
        self.has_reason = has_reason
        self.has_unknown_words = has_unknown_words or not has_reason
        self.date = values.get("date")

    def quote(self, date: str) -> None:
        """Explain a date in the words of the person."""
        self._text = DeferredText(self._text.text, {**self._text.values, "date": date.replace("`", "'")})


def is_utc(zone: str) -> bool:
    """Tell whether a zone is UTC: of a server, that says nothing about where people are."""
    return zone.removeprefix("Etc/") in _UTC_NAMES


def find_answered_zone(text: str) -> str | None:
    """Return the zone of a city that a short message names, such as `Munich` or `ich bin in München`."""
    if len(text) > MAX_ANSWER_CHARS:
        return None
    answer = text.replace("’", "'").strip(" .!。！")
    if zone := find_named_zone(answer):
        return zone
    before = _BEFORE_CITY.match(answer)
    if before is None:
        return None
    city = answer[before.end() :]
    return find_named_zone(city) or _find_declined_zone(city)


def _find_declined_zone(city: str) -> str | None:
    """Return the zone of the one city that has this form in Russian or Ukrainian, such as `Москве`."""
    name = normalize_name(city)
    for declined, nominative in _DECLINED_WORDS:
        name = declined.sub(nominative, name)
    if zone := find_named_zone(name):
        return zone
    if not name.endswith(_CASE_ENDINGS):
        return None
    stem = name[:-1]
    forms = {stem + ending for ending in _NOMINATIVE_ENDINGS} | {re.sub("[оє]в$", "ів", stem)}
    zones = {zone for form in forms if (zone := find_named_zone(form))}
    return zones.pop() if len(zones) == 1 else None


def resolve_zone(text: str) -> str:
    """Return the IANA name of a zone, by that name or by a city. Raises UnclearTime with what is close."""
    if not text.strip():
        raise UnclearTime(translatable("Tell me a city, such as `/zone Berlin` or `/zone Europe/Paris`."))
    if _OFFSET.fullmatch(text):
        raise UnclearTime(
            translatable(
                "An offset like +2 doesn't tell me when summer time starts. Tell me a city: `/zone Berlin`"
            )
        )
    try:
        return find_zone(text)[0]
    except ToolError:
        if close := list_close_zones(text):
            raise UnclearTime(
                translatable("I don't know a city called “{name}”. Did you mean {zones}?"),
                name=text.strip()[:60],
                zones=partial(format_series, words=close),
            ) from None
        raise UnclearTime(
            translatable(
                "I don't know a city called “{name}”. Try a larger one nearby, such as `/zone Berlin`, "
                "or a zone, such as `/zone Europe/Paris`."
            ),
            name=text.strip()[:60],
        ) from None
