"""/language: shows in which language the gateway's own words are, with a button for each, and changes it."""

import unicodedata
from dataclasses import replace
from functools import partial

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    BestEffortCall,
    ButtonExpired,
    ButtonRows,
    build_part,
    build_rows,
)
from bot.db.people import people
from bot.db.people.people import PersonLanguages
from bot.domain import Button, Part
from bot.translations.translator import LANGUAGES, Translator, find_language, load_translator, translatable

AUTOMATIC = "auto"  # the language that Telegram names
BUTTONS_PER_ROW = 3
MAX_NAME_CHARS = 40
_ENGLISH_NAMES = {
    "en": translatable("English"),
    "de": translatable("German"),
    "es": translatable("Spanish"),
    "fr": translatable("French"),
    "pt": translatable("Portuguese"),
    "ru": translatable("Russian"),
    "zh": translatable("Chinese"),
}


async def handle_language(context: ActionContext) -> ActionResult:
    """/language, and the language that may follow it: its code, a name of it, or auto."""
    languages = context.deps.access.get_languages(context.person)
    if not context.args:
        return ActionResult(parts=(_build_settings_part(context.translate, languages),))
    choice = _parse_choice(context.translate, context.args)
    if choice is None:
        text = context.translate("I don't know this language yet. Choose one of these:")
        return ActionResult(parts=(build_part(text, *_build_buttons(context.translate, languages)),))
    changed, result = await _change_language(context, choice)
    return replace(result, parts=(changed,))


async def handle_language_button(context: ActionContext) -> ActionResult:
    """A button of /language; `context.args` is the language's code, or auto."""
    choice = _parse_choice(context.translate, context.args)
    if choice is None:
        raise ButtonExpired
    changed, result = await _change_language(context, choice)
    return replace(result, replacement=changed)


async def _change_language(context: ActionContext, choice: str) -> tuple[Part, ActionResult]:
    """Store the choice; return the settings in the new language, and what is to be done after that."""
    access = context.deps.access
    known = access.get_languages(context.person)
    languages = replace(known, chosen=None if choice == AUTOMATIC else choice)
    await people.ensure_person(context.tx, context.person, context.name, now=context.now)
    await people.set_languages(context.tx, context.person, languages)
    translate = load_translator(languages.effective)
    client = context.deps.best_effort_calls
    if context.role == "admin" or languages.chosen:
        is_admin = context.role == "admin"
        set_menu: BestEffortCall = partial(
            client.set_menu, context.person, translate.language, is_admin=is_admin
        )
    else:
        set_menu = partial(client.reset_menu, context.person)
    result = ActionResult(
        after_commit=(partial(access.remember_languages, context.person, languages),),
        best_effort_calls=(set_menu,),
    )
    return _build_settings_part(translate, languages), result


def _parse_choice(translate: Translator, words: str) -> str | None:
    """Return the code of a language, by its code or a name of it, or AUTOMATIC; None: neither."""
    word = _simplify(words)
    if word == AUTOMATIC:
        return AUTOMATIC
    for code, own_name in LANGUAGES.items():
        english_name = _ENGLISH_NAMES[code]
        if word in map(_simplify, (own_name, english_name, translate(english_name))):
            return code
    return find_language(word)


def _simplify(text: str) -> str:
    """Return a text without accents and in small letters."""
    decomposed = unicodedata.normalize("NFKD", text.strip()[:MAX_NAME_CHARS])
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)).casefold()


def _build_settings_part(translate: Translator, languages: PersonLanguages) -> Part:
    name = translate(_ENGLISH_NAMES[translate.language])
    text = translate("My own messages to you are in {language}.", language=name)
    if languages.telegram and not languages.chosen:
        text = translate("My own messages to you are in {language}, like your Telegram.", language=name)
    hint = translate("I answer in whatever language you write.")
    return build_part(f"{text}\n{hint}", *_build_buttons(translate, languages))


def _build_buttons(translate: Translator, languages: PersonLanguages) -> ButtonRows:
    labels = {AUTOMATIC: translate("Like Telegram"), **LANGUAGES}
    current = languages.chosen or AUTOMATIC
    buttons = [
        Button(f"✓ {label}" if code == current else label, f"language:{code}")
        for code, label in labels.items()
    ]
    return build_rows(buttons, BUTTONS_PER_ROW)
