"""The Channel of a chat: what one turn shows while it works, and its answer as parts.

Waits for nothing but rendering: it sets what is to be shown, and the sender does the rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bot.attachments.excerpts import describe_page
from bot.db.queues.outbox_rows import OutboxRow
from bot.domain import AnswerLinks, Button, Lane, OutgoingFile, Part
from bot.telegram.delivery.lane_worker import LaneSender
from bot.telegram.delivery.progress import TurnProgress
from bot.telegram.delivery.sender import Sender
from bot.telegram.formatting.answer_links import append_files
from bot.telegram.formatting.render import Piece
from bot.translations.translator import ENGLISH, Translator


class ReservedSend:
    """The lane's next call, kept for the first send of an answer; `row` is what it sends, once taken."""

    def __init__(self, lane: Lane, reply_to: int | None) -> None:
        self.lane = lane
        self.row: OutboxRow | None = None
        self._reply_to = reply_to

    def take(self, row: int, part: Part, *, has_more: bool) -> None:
        """Send this part, whose row is stored as being sent; `has_more`: others follow it."""
        self.row = OutboxRow(
            row, self.lane, self._reply_to, part, True, "sending", None, is_notice=False, has_more=has_more
        )


class ChatChannel:
    """Opened for one turn; after a restart it continues with the messages that the turn already had.

    `reply_to`: the message that the first of them replies to.
    `translate`: into the person's language.
    """

    def __init__(
        self,
        sender: Sender,
        lane: Lane,
        item: int,
        *,
        silent: bool,
        reply_to: int | None = None,
        translate: Translator = ENGLISH,
    ) -> None:
        self.translate = translate
        self._sender = sender
        self._progress = TurnProgress(lane, item, silent, sender.limits, translate, reply_to)
        self._first_send: tuple[LaneSender, OutboxRow] | None = None

    def begin(self, status: str | None = None) -> None:
        """Show a typing sign or draft unless something is shown within 300 ms.

        `status` stands below the text until the final one comes, where no other status does.
        """
        self._progress.lasting_status = status
        self._progress.begin(self._sender.now)
        self._sender.show(self._progress)

    def show(self, text: str) -> None:
        """Show the latest snapshot (Markdown) of an answer that is still being written."""
        self._progress.text = text
        self._progress.status = None
        self._progress.draft_status = None
        self._sender.show(self._progress)

    def set_links(self, links: AnswerLinks) -> None:
        """Show only these links from the next snapshot on."""
        self._progress.links = links

    def show_status(self, line: str | None) -> None:
        """Show one line that says why the person waits, below the text; None removes it."""
        self._progress.status = line
        self._sender.show(self._progress)

    def show_queue_place(self, line: str | None) -> None:
        """Show the place in line, in the draft if there is one, else like a status; None once it is over."""
        self._progress.set_queue_status(line, self._sender.now)
        self._sender.show(self._progress)

    def show_tool_progress(self, line: str | None) -> None:
        """Show what a running tool reports where the place in line is shown; None once it has ended."""
        self._progress.draft_status = line
        self._sender.show(self._progress)

    async def render_parts(
        self,
        text: str,
        *,
        silent: bool = False,
        buttons: tuple[tuple[Button, ...], ...] = (),
        links: AnswerLinks | None = None,
    ) -> tuple[Part, ...]:
        """Render the final text as parts: the first notifies unless silent, the last has the buttons."""
        pieces = await self._sender.renderer.render_answer(
            text, self._progress.block_cache, links, self.translate("Sources:")
        )
        if links is not None:
            names = [describe_page(self.translate, page) for page in links.file_pages]
            pieces = append_files(pieces, names, self.translate("Looked up in:"))
        parts = [
            Part(piece.text, piece.entities, silent=silent or number > 0)
            for number, piece in enumerate(pieces or (self._empty_piece,))
        ]
        if self._progress.lane.is_guest:
            return self._mark_rest(parts)
        return (*parts[:-1], replace(parts[-1], buttons=buttons))

    async def build_files(self, text: str) -> tuple[OutgoingFile, ...]:
        """Build files of what the final text has that is longer than a message; a guest gets none."""
        if self._progress.lane.is_guest:
            return ()
        return await self._sender.renderer.build_files(text)

    def _mark_rest(self, parts: list[Part]) -> tuple[Part, ...]:
        """Say in the first part that the others come in private: a guest has one message."""
        if len(parts) == 1:
            return tuple(parts)
        notice = self.translate("(The rest is in our private chat.)")
        return (replace(parts[0], text=f"{parts[0].text}\n\n{notice}"), *parts[1:])

    @property
    def _empty_piece(self) -> Piece:
        return Piece(self.translate("(There's nothing in this answer that I can show.)"))

    @contextmanager
    def reserve_send(self) -> Iterator[ReservedSend | None]:
        """Keep the lane's next call for what the block stores as being sent; `end` makes it.

        None: another call comes first, or has to wait.
        """
        progress = self._progress
        lane_sender = self._sender.reserve(progress.lane)
        if lane_sender is None:
            yield None
            return
        reserved = ReservedSend(progress.lane, progress.reply_to)
        try:
            yield reserved
        except BaseException:
            if reserved.row is None:
                lane_sender.free()
            else:  # an error of the commit, which may have come to its end nevertheless
                lane_sender.release(progress.item)
            raise
        if reserved.row is None:
            lane_sender.free()
        else:
            self._first_send = (lane_sender, reserved.row)

    def end(self) -> None:
        """Make the reserved call, if there is one, and show nothing else of this turn."""
        self._progress.is_over = True
        if self._first_send is None:
            self._sender.end_turn(self._progress)
        else:
            self._sender.send_taken(*self._first_send)
