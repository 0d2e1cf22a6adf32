"""/find: what was said in this chat, in any of its conversations; a button shows the exchange around it."""

from datetime import UTC, datetime

from bot.agent.text_search import MAX_PASSAGES
from bot.attachments.excerpts import describe_page
from bot.chat.actions import ActionContext, ActionResult, build_rows, reply_hint, reply_text
from bot.domain import Button
from bot.errors import ChangeRefused
from bot.translations.formats import format_date
from bot.translations.translator import translatable
from bot.turns import find_texts, load_exchange

HOW_TO = translatable("Tell me what to look for, such as `/find plumber` or `/find plumber in May`.")
NOTHING_FOUND = translatable("I found nothing about “{words}” in this chat.")
GONE = translatable("I no longer have this.")
MAX_SIDE_CHARS = 1800  # of what one side wrote of an exchange
MAX_NAMED_CHARS = 60  # of the words that were looked for
_BUTTONS_PER_ROW = 5


async def handle_find(context: ActionContext) -> ActionResult:
    """/find WORDS."""
    translate = context.translate
    if not context.args:
        return reply_hint(translate(HOW_TO))
    today = datetime.fromtimestamp(context.now, UTC).date()
    found = await find_texts(
        context.tx,
        context.lane,
        context.args,
        today,
        for_people=True,
        has_access=context.deps.access.has_access(context.person),
    )
    found = found[:MAX_PASSAGES]
    if not found:
        return reply_hint(translate(NOTHING_FOUND, words=context.args[:MAX_NAMED_CHARS].replace("`", "'")))
    zone = await context.load_zone()
    days = [format_date(translate, datetime.fromtimestamp(match.text.made_at, zone)) for match in found]
    entries = list[str]()
    buttons = list[Button]()
    for number, (day, match) in enumerate(zip(days, found, strict=True), start=1):
        place = day
        if match.text.page is None:
            buttons.append(Button(str(number), f"found:{match.text.turn}"))
        else:
            place = f"{day}, {describe_page(translate, match.text.page)}"
        entries.append(f"{number}. {place}\n{match.passage}")
    return reply_text("\n\n".join(entries), *build_rows(buttons, _BUTTONS_PER_ROW))


async def handle_found_button(context: ActionContext, turn: int) -> ActionResult:
    """The button that shows what was asked and answered then."""
    texts = [text for text in await load_exchange(context.tx, context.lane, turn) if text.text]
    if not texts:
        raise ChangeRefused(GONE)
    day = format_date(context.translate, datetime.fromtimestamp(texts[0].made_at, await context.load_zone()))
    asked = "\n".join(text.text for text in texts if text.source == "user")
    answered = texts[-1].text if texts[-1].source == "assistant" else ""
    sides = (_shorten(asked), _shorten(answered))
    return reply_text("\n\n".join(filter(None, (f"🔎 {day}", *sides))))


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SIDE_CHARS else f"{text[:MAX_SIDE_CHARS]}…"
