"""What a turn is to answer, what all turns share, and what the endpoint is asked before one begins.

Values only, and the user messages made from a request; open_turn.py opens the turn.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

from bot.agent import prompt
from bot.agent.history import TOKENS_PER_IMAGE
from bot.agent.thinking_policy import ThinkingSetting
from bot.domain import PEOPLE_PRIORITY, Attachment, Image, InboxItem, Lane, Message
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.toolbox import Toolbox
from bot.translations.translator import ENGLISH, Translator
from bot.turns.thought_costs import ThoughtCosts
from tools.base import Tool

STAMP_SECONDS = 1800  # a message that comes so long after the one before it says when it was written

_STAMP = re.compile(r"\A\[\w{3} \d{4}-\d\d-\d\d \d\d:\d\d \S+\] ")


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a turn is to answer: the waiting messages of a lane, and who wrote them.

    `items`: marked done when the turn ends.
    `texts`: one for each message, sent at `sent_at`.
    `attachments`: those of each message, in the order of `texts`; empty if no message has any.
    `silent`: the answer makes no sound.
    `preface`: put before the answer.
    `deep`: the second endpoint was asked for.
    `with_thinking`: it was asked for, whatever else says whether this turn thinks.
    `is_continuation`: the request is to continue the last answer.
    `revises_answer`: the chat shows an earlier answer, whose place this one takes.
    `revised_turn`: the one that answered the messages before one of them was edited.
    `priority`: of the turn's model calls.
    `translate`: into the language of the person.
    `speaker`: what a group's prompts call the person; "" where a message stands without a name.
    `message_id`: of the newest message; what a group's people said before it is read along.
    `own_words`: what the person wrote in it themselves: nothing forwarded, quoted or from a file.
    `is_spoken`: the person has said one of the messages.
    """

    items: tuple[InboxItem, ...]
    lane: Lane
    person: int
    name: str
    texts: tuple[str, ...]
    attachments: tuple[tuple[Attachment, ...], ...] = ()
    sent_at: tuple[float, ...] = ()
    reply_to: int | None = None
    silent: bool = False
    preface: str = ""
    deep: bool = False
    with_thinking: bool = False
    is_continuation: bool = False
    revises_answer: bool = False
    revised_turn: int | None = None
    priority: int = PEOPLE_PRIORITY
    translate: Translator = ENGLISH
    speaker: str = ""
    message_id: int | None = None
    own_words: str = ""
    is_spoken: bool = False

    @property
    def attachment_count(self) -> int:
        """How many attachments the messages have together."""
        return sum(map(len, self.attachments))

    @property
    def attachment_bytes(self) -> int:
        """The size of all attachments; of texts their characters."""
        enclosed = [attachment for of_message in self.attachments for attachment in of_message]
        return sum(len(attachment.data or attachment.text or "") for attachment in enclosed)

    @property
    def may_have_begun(self) -> bool:
        """Whether its turn may be stored already."""
        return any(item.has_turn for item in self.items)

    def mark_begun(self) -> "TurnRequest":
        """The same request, whose turn may be stored already."""
        return replace(self, items=tuple(replace(item, has_turn=True) for item in self.items))


@dataclass(frozen=True, slots=True)
class TurnConfig:
    """What every turn of this gateway shares: system text, tools, and limits in tokens.

    `thinking`: applies where the chat has set nothing.
    `can_count_tokens`, `can_estimate_heavy_work`: whether the endpoint may be asked for the length of a
    prompt, and whether to think.
    `summaries_enabled`: a summary is made ahead of a cut. `speech_enabled`: answers may be read out.
    `time_zone`: that of people who have not named theirs.
    `image_tokens`: what a picture takes of a prompt, as the server counts by now.
    `can_choose_tools`: whether the endpoint may be asked which of many tools is needed.
    `thought_costs`: what a thought costs at the endpoint, which moves the threshold of thinking.
    """

    system: str
    tool_registry: ToolRegistry
    prompt_budget: int
    max_steps: int
    max_tokens: int
    thinking: ThinkingSetting = "auto"
    can_count_tokens: bool = False
    can_estimate_heavy_work: bool = False
    summaries_enabled: bool = False
    speech_enabled: bool = False
    time_zone: str = "UTC"
    can_choose_tools: Callable[[], bool] = lambda: False
    thought_costs: ThoughtCosts = field(default_factory=ThoughtCosts)
    image_tokens: Callable[[], int] = lambda: TOKENS_PER_IMAGE


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    """Nothing is stored yet: the endpoint should first count `prompt`, or judge the messages.

    It judges whether to think, and which of `tool_rivals` is needed, if there are any.
    """

    chat: int
    needs_token_count: bool
    needs_heavy_chance: bool
    thinking: bool
    prompt: tuple[Message, ...]
    toolbox: Toolbox
    tool_rivals: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """What the endpoint answered before a turn began; None: it was not asked, or gave no answer.

    `heavy_chance`: the chance that the turn's work is heavy. `likely_tools`: those that it may need.
    `call`: the ledger's row of the judgement.
    """

    prompt_tokens: int | None = None
    heavy_chance: float | None = None
    call: int | None = None
    likely_tools: tuple[str, ...] = ()


def may_need_stamp(request: TurnRequest, last_message_at: float, now: float) -> bool:
    """Whether one of the texts may say when it was written."""
    return max(request.sent_at, default=now) - last_message_at >= STAMP_SECONDS


def strip_stamp(text: str) -> str:
    """A user's message without when it was written."""
    return _STAMP.sub("", text, count=1)


def build_user_messages(
    request: TurnRequest, last_message_at: float, now: float, zone: tzinfo, said_before: str = ""
) -> tuple[Message, ...]:
    """The texts of a request as they are stored and sent; `last_message_at` is when the last turn's came.

    A text that comes long after the one before it says when it was written, in the person's zone of then: it
    is stored so and never changes. Such a stamp is a dozen tokens in every later prompt, so a lively
    conversation has few of them. `said_before` is a data block that stands in front of the first text.
    """
    messages = []
    sent_at = request.sent_at or (now,) * len(request.texts)
    attachments = request.attachments or ((),) * len(request.texts)
    for text, moment, enclosed in zip(request.texts, sent_at, attachments, strict=True):
        needs_stamp = moment - last_message_at >= STAMP_SECONDS and not _STAMP.match(text)
        stamp = prompt.format_timestamp(datetime.fromtimestamp(moment, zone)) if needs_stamp else ""
        images = tuple(
            Image(attachment.media_type, attachment.data)
            for attachment in enclosed
            if attachment.data is not None
        )
        words = prompt.attribute_text(request.speaker, text)
        messages.append(Message("user", stamp + words, images=images))
        last_message_at = max(last_message_at, moment)
    if said_before:
        messages[0] = replace(messages[0], text=f"{said_before}\n{messages[0].text}")
    return tuple(messages)
