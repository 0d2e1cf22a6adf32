"""/new, /stop and /notes: what a person does about the conversation of a chat."""

from functools import partial

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonExpired,
    ListEntry,
    build_pages,
    build_part,
    reply_hint,
    reply_text,
)
from bot.db.conversations import conversations, notes
from bot.db.queues import inbox, parked_items, stop_requests
from bot.db.queues.item_bodies import QueuedTexts
from bot.db.queues.stop_requests import StopCommand
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.translations.formats import format_date
from bot.translations.translator import Translator, translatable

STOP_REFUSAL = translatable("Only the person who asked or a group administrator can stop this.")

STOP_CAME_LATE = translatable(
    "That answer was already complete, so I've started on the next message. To stop that too, send /stop "
    "again."
)


async def handle_new(context: ActionContext) -> ActionResult:
    """/new; in a group it asks first if somebody else still waits for an answer."""
    context.check_may_change_chat()
    if context.is_group and await stop_requests.has_work_of_others(context.tx, context.lane, context.person):
        question = context.translate(
            "Somebody else here is waiting for an answer. Start a new conversation now?"
        )
        return reply_text(question, (Button(context.translate("Start it"), "new:yes"),))
    return await _start_conversation(context)


async def handle_new_button(context: ActionContext) -> ActionResult:
    """The button that starts a new conversation although somebody waits."""
    if context.args != "yes":
        raise ButtonExpired
    context.check_may_change_chat()
    started = await _start_conversation(context)
    return ActionResult(replacement=started.parts[0])


async def _start_conversation(context: ActionContext) -> ActionResult:
    parked_turns = await parked_items.list_parked_turns(context.tx, context.lane, before=context.item.id)
    await context.deps.turns.approvals.stop_turns(context.tx, parked_turns, now=context.now)
    await conversations.start_new(context.tx, context.lane)
    text = context.translate(
        "New conversation. What was said before no longer counts, but I can look it up. Your notes are kept."
    )
    if context.lane.topic is not None:
        text += " " + context.translate("Other topics keep their own conversations.")
    return reply_text(text)


async def handle_stop(context: ActionContext) -> ActionResult:
    command = StopCommand(
        sender=None if context.moderates else context.person,
        sent_at=context.item.body.get("message", {}).get("date"),
    )
    stopped = await stop_requests.stop(
        context.tx,
        context.lane,
        before=context.item.id,
        now=context.now,
        command=command,
    )
    if stopped.was_late:
        return reply_text(context.translate(STOP_CAME_LATE))
    if stopped.parked:
        await context.deps.turns.approvals.stop_turns(context.tx, stopped.parked, now=context.now)
        return ActionResult()
    if stopped.running:
        stop_turn = partial(context.deps.turns.control.stop, context.lane, context.item.id)
        return ActionResult(parts=_offer_to_drop(context, stopped.waiting), after_commit=(stop_turn,))
    if stopped.dropped:
        return reply_text(
            context.translate.plural(
                "I won't answer the message that was waiting.",
                "I won't answer the {count} messages that were waiting.",
                stopped.dropped,
            )
        )
    if not context.moderates and await stop_requests.has_work_of_others(
        context.tx, context.lane, context.person
    ):
        raise ChangeRefused(STOP_REFUSAL)
    return reply_text(context.translate("Nothing is running."))


def _offer_to_drop(context: ActionContext, waiting: int) -> tuple[Part, ...]:
    """Offer to drop the messages that wait, if there are any; in a group they may be anybody's."""
    if not waiting or context.is_group:
        return ()
    text = context.translate.plural(
        "One more message of yours is waiting; I'll answer it next.",
        "{count} more messages of yours are waiting; I'll answer them next.",
        waiting,
    )
    label = context.translate.plural("Skip it", "Skip them", waiting)
    return (build_part(text, (Button(label, f"drop:{context.item.id}"),)),)


async def queue_task(
    context: ActionContext,
    texts: tuple[str, ...],
    of_turn: int | None = None,
    *,
    deep: bool = False,
    with_thinking: bool = False,
    continues: bool = False,
) -> None:
    """Have these messages answered as if the person had sent them.

    `of_turn`: the turn whose messages they are, if any's.
    `deep`: by the second endpoint.
    `with_thinking`: after a thought, whatever the chat has set.
    `continues`: the last answer is to be continued.
    """
    queued = QueuedTexts(
        context.person,
        context.name,
        texts,
        turn=of_turn,
        deep=deep,
        thinks=with_thinking,
        continues=continues,
    )
    await inbox.add(
        context.tx,
        kind="task",
        lane=context.lane,
        sender=context.person,
        body=queued.serialize(),
        now=context.now,
    )


async def handle_notes(context: ActionContext) -> ActionResult:
    if context.args:
        return reply_hint(
            context.translate(
                "To keep a note, just ask, for example `remember that we need milk`. /notes lists your notes."
            )
        )
    return ActionResult(parts=await build_notes_pages(context))


async def build_notes_pages(context: ActionContext) -> tuple[Part, ...]:
    """List the notes of the chat, each with a button to delete it."""
    stored_notes = await notes.list_stored(context.tx, context.lane)
    if not stored_notes:
        return (Part(context.translate("No notes yet. Ask me to remember something.")),)
    entries = [_build_note_entry(context.translate, row) for row in stored_notes]
    return build_pages(context.translate("Notes in this chat:"), entries, buttons_per_row=4)


def _build_note_entry(translate: Translator, row: notes.StoredNote) -> ListEntry:
    note = row.note
    line = f"{note.number}. {note.text} ({note.author}, {format_date(translate, note.made)})"
    return line, (Button(translate("Delete {number}", number=note.number), f"note:{row.id}"),)
