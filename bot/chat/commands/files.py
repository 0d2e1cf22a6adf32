"""/files and the Keep button: the documents that a chat keeps beyond its conversations.

Who sent a document may keep it; they, and who moderates the chat, may delete it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from bot.attachments.excerpts import split_pages
from bot.attachments.outgoing_files import clean_file_name
from bot.chat.actions import ActionContext, ActionResult, ListEntry, build_pages, redraw_list, reply_text
from bot.chat.commands.find import GONE
from bot.db.conversations import kept_files
from bot.db.conversations.kept_files import KeptFile, SentDocument
from bot.db.conversations.stored_files import MAX_KEPT_BYTES
from bot.db.queues.admin_notices import record_if_changed
from bot.domain import DAY_SECONDS, Button, Part
from bot.errors import ChangeRefused
from bot.maintenance.document_folder import OPENED
from bot.translations.formats import format_date, format_number, format_series, format_size
from bot.translations.translator import translatable

MAX_FILES = 200  # of one chat
NO_FILES = translatable("I don't keep any files here yet. Send one, and tap “Keep” below my answer.")
FULL = translatable(
    "I can't keep that too: your kept files take up {size} of {limit}, and this chat has {count} of "
    "{max_count} files. /files lets you delete some."
)


async def handle_files(context: ActionContext) -> ActionResult:
    """/files."""
    return ActionResult(parts=await _build_pages(context))


async def handle_keep_button(context: ActionContext, turn: int) -> ActionResult:
    """The button below the answer to documents: keeps them all, or says that they are kept."""
    translate = context.translate
    chat = context.lane.chat
    documents = await kept_files.list_documents(context.tx, context.lane, turn)
    kept = await kept_files.list_files(context.tx, chat, turn=turn)
    if not (documents or kept):
        raise ChangeRefused(GONE)
    senders = {*(document.person for document in documents), *(file.person for file in kept)}
    if not all(map(context.speaks_for, senders)):
        raise ChangeRefused("Only the person who sent it can do that.")
    if refusal := await _explain_refusal(context, documents):
        return reply_text(refusal)
    for document in documents:
        pages = split_pages(document.text)
        page_count = None if pages[0].noun is None else len(pages)
        named = replace(document, name=clean_file_name(document.name))
        kept.append(await kept_files.keep(context.tx, chat, turn, named, page_count, now=context.now))
    told = await _describe_kept(context, kept)
    return ActionResult(toast=translate("Kept."), parts=(Part(told, silent=True),))


async def _explain_refusal(context: ActionContext, documents: Sequence[SentDocument]) -> str:
    """Explain why these documents of one person cannot be kept, too; "" if they can."""
    if not documents:
        return ""
    translate = context.translate
    kept_bytes = await kept_files.count_bytes(context.tx, documents[0].person)
    count = len(await kept_files.list_files(context.tx, context.lane.chat))
    new_bytes = sum(document.size for document in documents)
    if kept_bytes + new_bytes <= MAX_KEPT_BYTES and count + len(documents) <= MAX_FILES:
        return ""
    return translate(
        FULL,
        size=format_size(translate, kept_bytes),
        count=format_number(translate, count),
        limit=format_size(translate, MAX_KEPT_BYTES),
        max_count=format_number(translate, MAX_FILES),
    )


async def _describe_kept(context: ActionContext, kept: Sequence[KeptFile]) -> str:
    translate = context.translate
    names = format_series(translate, [translate("“{name}”", name=file.name) for file in kept])
    if (expiry := _find_expiry(context, kept)) is None:
        return translate(
            "Kept without a time limit: {names}. With /files you can see and delete what I keep here.",
            names=names,
        )
    day = format_date(translate, datetime.fromtimestamp(expiry, await context.load_zone()))
    return translate(
        "Kept until {day}, and longer if used: {names}. With /files you can see and delete what I keep here.",
        day=day,
        names=names,
    )


async def handle_delete_button(context: ActionContext, file_id: int) -> ActionResult:
    """The button that deletes a kept file."""
    chat = context.lane.chat
    kept = await kept_files.list_files(context.tx, chat)
    file = next((file for file in kept if file.id == file_id), None)
    if file is None:
        raise ChangeRefused(GONE)
    if not (context.moderates or context.speaks_for(file.person)):
        raise ChangeRefused("Only the person who sent it or a group administrator can delete this.")
    await kept_files.remove(context.tx, chat, file_id)
    toast = context.translate("“{name}” is deleted.", name=file.name)
    return redraw_list(toast, await _build_pages(context))


async def handle_documents_button(context: ActionContext) -> ActionResult:
    """The button by which an admin opens the owner's folder to everybody."""
    opened = await record_if_changed(context.tx, OPENED, str(context.person), now=context.now)
    if opened:
        await context.record_audit("opened", "DOCUMENTS_DIR", None, None)
    text = context.translate("Everybody can now ask me to look things up in DOCUMENTS_DIR.")
    return ActionResult(toast=context.translate("Done."), replacement=Part(text))


async def _build_pages(context: ActionContext) -> tuple[Part, ...]:
    """List the files of the chat, each with a button to delete it."""
    translate = context.translate
    kept = await kept_files.list_files(context.tx, context.lane.chat)
    if not kept:
        return (Part(translate(NO_FILES)),)
    own_bytes = await kept_files.count_bytes(context.tx, context.person)
    heading = translate(
        "Files in this chat (in all chats, yours take up {size} of {limit}):",
        size=format_size(translate, own_bytes),
        limit=format_size(translate, MAX_KEPT_BYTES),
    )
    zone = await context.load_zone()
    entries = [_build_entry(context, number, file, zone) for number, file in enumerate(kept, start=1)]
    return build_pages(heading, entries, buttons_per_row=4)


def _build_entry(context: ActionContext, number: int, file: KeptFile, zone: ZoneInfo) -> ListEntry:
    translate = context.translate
    facts = [translate("“{name}”", name=file.name)]
    if file.pages is not None:
        facts.append(translate.plural("{count} page", "{count} pages", file.pages))
    facts.append(format_size(translate, file.size))
    if (expiry := _find_expiry(context, [file])) is not None:
        day = format_date(translate, datetime.fromtimestamp(expiry, zone))
        facts.append(translate("until {day}", day=day))
    line = f"{number}. {format_series(translate, facts)}"
    return line, (Button(translate("Delete {number}", number=number), f"file:{file.id}"),)


def _find_expiry(context: ActionContext, kept: Sequence[KeptFile]) -> float | None:
    """When the first of these files is deleted if none is used; None: never."""
    days = context.deps.settings.retention.text_days
    if days is None:
        return None
    return min(file.used_at for file in kept) + days * DAY_SECONDS
