"""What a person reads when a turn ends without an answer."""

from dataclasses import dataclass

from bot.errors import EndpointAway, PromptTooLong
from bot.translations.formats import format_number
from bot.translations.translator import Translator, translatable
from bot.turns.turn_request import TurnRequest

MODEL_AWAY = translatable("The model is still not answering, so I've stopped trying. Send /retry later.")
PROMPT_TOO_LONG = translatable(
    "This is longer than I can read at once. Please send less of it, or start fresh with /new."
)
MESSAGE_TOO_LONG = translatable(
    "Your message has {count} characters, more than I can read at once. Please send less of it, or send it "
    "as a text file: I read as much of a file as fits."
)
REQUEST_REFUSED = translatable("The model server refused my request. The admins know; /retry tries again.")
GUEST_ANSWER_LOST = translatable("I lost this one. Please ask me again.")
_LONG_MESSAGE_CHARS = 2000  # a prompt may be too long because of a message from this length on


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """`text` as the model reads it later, `shown_text` in the person's language, and the turn's `ending`."""

    text: str
    shown_text: str
    ending: str


def describe_failure(error: object, request: TurnRequest, translate: Translator) -> TurnFailure:
    """Say why there is no answer to the request."""
    char_count = sum(map(len, request.texts))
    text, ending = _describe_error(error, char_count)
    if request.lane.is_guest:  # the commands that those texts name are for private chats
        text = GUEST_ANSWER_LOST
    shown_count = format_number(translate, char_count)
    return TurnFailure(text.format(count=char_count), translate(text, count=shown_count), ending)


def _describe_error(error: object, char_count: int) -> tuple[str, str]:
    if isinstance(error, EndpointAway):
        return MODEL_AWAY, "away"
    if not isinstance(error, PromptTooLong):
        return REQUEST_REFUSED, "refused"
    return MESSAGE_TOO_LONG if char_count >= _LONG_MESSAGE_CHARS else PROMPT_TOO_LONG, "too_long"
