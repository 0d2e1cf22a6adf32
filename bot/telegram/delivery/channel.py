"""The Channel of a chat: what one turn shows while it works, and its answer as parts.

Waits for nothing: it says what is wanted, the sender brings it about.
"""

from dataclasses import replace

from bot.domain import Button, Lane, Part
from bot.telegram.delivery.progress import TurnProgress
from bot.telegram.delivery.sender import Sender
from bot.telegram.formatting.render import render_markdown

_EMPTY_ANSWER = "(This answer holds nothing that can be shown.)"


class ChatChannel:
    """Opened for one turn; after a restart it continues with the messages the turn had already."""

    def __init__(self, sender: Sender, lane: Lane, item: int, *, silent: bool) -> None:
        self._sender = sender
        self._progress = TurnProgress(lane, item, silent, sender.limits)

    def begin(self) -> None:
        """Show a sign of life unless something is shown within 300 ms."""
        self._progress.begin(self._sender.now)
        self._sender.show(self._progress)

    def show(self, text: str) -> None:
        """Latest snapshot (Markdown) of an answer still being written."""
        self._progress.text = text
        self._progress.status = None
        self._progress.queue_status = None
        self._sender.show(self._progress)

    def show_status(self, line: str | None) -> None:
        """One line that says why the person waits, below what is shown; None takes it back."""
        self._progress.status = line
        self._sender.show(self._progress)

    def show_queue_place(self, line: str | None) -> None:
        """The place in line: in the draft where there is one, else as `status`. None: it has come to the
        person.
        """
        self._progress.set_queue_status(line, self._sender.now)
        self._sender.show(self._progress)

    def render_parts(
        self, text: str, *, silent: bool = False, buttons: tuple[tuple[Button, ...], ...] = ()
    ) -> tuple[Part, ...]:
        """The final text as parts: the first notifies unless silent, the last has the buttons."""
        pieces = [Part(piece.text, piece.entities) for piece in render_markdown(text)] or [
            Part(_EMPTY_ANSWER)
        ]
        parts = [replace(part, silent=silent or number > 0) for number, part in enumerate(pieces)]
        return (*parts[:-1], replace(parts[-1], buttons=buttons))

    def end(self) -> None:
        """The final parts are stored (committed): deliver them, and show nothing else of this turn."""
        self._progress.is_over = True
        self._sender.wake(self._progress.lane)
