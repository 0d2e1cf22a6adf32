"""/export: has what was said in a chat made into files, with its kept files if that is wanted."""

from bot.chat.actions import ActionContext, ActionResult, ButtonExpired, reply_text
from bot.db.conversations import kept_files
from bot.db.maintenance import exports
from bot.db.queues import inbox
from bot.db.queues.item_bodies import ExportOrder
from bot.domain import Button, Part
from bot.errors import ChangeRefused

FILES = "export:files"
TEXTS = "export:texts"


async def handle_export(context: ActionContext) -> ActionResult:
    """/export; where files are kept, it asks about them first."""
    translate = context.translate
    _check_right(context)
    kept = await kept_files.list_files(context.tx, context.lane.chat)
    if not kept:
        return reply_text(await _order_export(context, with_files=False))
    question = translate.plural(
        "Do you also want the file I keep here?",
        "Do you also want the {count} files I keep here?",
        len(kept),
    )
    return reply_text(
        question, (Button(translate("With files"), FILES), Button(translate("Without files"), TEXTS))
    )


async def handle_export_button(context: ActionContext) -> ActionResult:
    """A button of the question."""
    _check_right(context)
    if context.args not in {"files", "texts"}:
        raise ButtonExpired
    text = await _order_export(context, with_files=context.args == "files")
    return ActionResult(replacement=Part(text))


def _check_right(context: ActionContext) -> None:
    if not context.moderates:
        raise ChangeRefused("Only administrators of this group can export it.")


async def _order_export(context: ActionContext, *, with_files: bool) -> str:
    """Have the export made, and say so. Raises ChangeRefused."""
    if await exports.is_busy(context.tx, context.lane.chat):
        raise ChangeRefused("I'm still exporting or deleting this chat. Please try again later.")
    last_turn = await exports.find_last_turn(context.tx, context.lane)
    if last_turn is None and not with_files:
        raise ChangeRefused("There's nothing to export: I don't keep anything from this chat.")
    order = ExportOrder(context.lane, context.person, with_files, last_turn or 0)
    await inbox.add(
        context.tx,
        kind="system",
        lane=None,
        sender=context.person,
        body=order.serialize(),
        now=context.now,
    )
    return context.translate("I'm exporting this chat. You'll get it here as files.")
