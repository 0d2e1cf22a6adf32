"""The one way in which words for a time fail: with a sentence that says what to do."""

from bot.errors import CanvasgramError


class UnclearTime(CanvasgramError):
    """Words for a time that cannot be understood, or not be meant; the text says why, and how it may be said.

    `told`: it is known what is wrong; else the words are just no words for a time.
    """

    def __init__(self, text: str, *, has_reason: bool = True) -> None:
        super().__init__(text)
        self.has_reason = has_reason
