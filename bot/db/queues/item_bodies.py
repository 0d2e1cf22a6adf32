"""What inbox items of our own kinds, and questions about jobs, say as values; updates stay raw JSON. Pure.

Their keys are data at rest: an item may have been stored by an earlier version.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Final, Literal, Self

from bot.domain import Lane

EXPORT_JOB: Final = "export"
FORGET_JOB: Final = "forget"
SPEECH_JOB: Final = "speech"
SUMMARY_JOB: Final = "summary"
TOOLS_JOB: Final = "tools"

JobField = Literal["time", "text"]


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A value that is stored under the names of its fields, its lane by its key.

    `job`: the kind of system item that it is the body of; None: of another kind.
    """

    job: ClassVar[str | None] = None

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        values = {field.name: body[field.name] for field in fields(cls) if field.name in body}
        if "lane" in values:
            values["lane"] = Lane.parse(values["lane"])
        return cls(**values)

    def serialize(self) -> dict[str, Any]:
        body = asdict(self)
        if "lane" in body:
            body["lane"] = Lane(**body["lane"]).key
        return body if self.job is None else {"job": self.job, **body}


@dataclass(frozen=True, slots=True)
class JobQuestion(StoredBody):
    """A question for the new time or text of a job; `lane`: where it was put."""

    field: JobField
    lane: Lane
    asked_at: float


@dataclass(frozen=True, slots=True)
class ReminderWish(StoredBody):
    """A /remind, whose words are not read yet; `said_at`: when they were written (epoch seconds)."""

    person: int
    name: str
    words: str
    said_at: float | None = None


@dataclass(frozen=True, slots=True)
class QueuedTexts:
    """Texts that are answered as if a person had just sent them, or that a due time brings.

    `turn`: whose messages these are, if they may have attachments.
    `deep`: the second endpoint is to answer. `thinks`: after a thought, whatever the chat has set.
    `continues`: the last answer is to be continued.
    `late`: seconds after the due time. `left_out`: earlier due times were missed and are not made up for.
    """

    person: int
    name: str
    texts: tuple[str, ...]
    turn: int | None = None
    deep: bool = False
    thinks: bool = False
    continues: bool = False
    late: float = 0.0
    left_out: bool = False

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            person=int(body["person"]),
            name=str(body["name"]),
            texts=tuple(body["texts"]),
            turn=body.get("turn"),
            deep=bool(body.get("deep")),
            thinks=bool(body.get("think")),
            continues=bool(body.get("goes_on")),
            late=float(body.get("late", 0.0)),
            left_out=bool(body.get("left_out")),
        )

    def serialize(self) -> dict[str, Any]:
        body: dict[str, Any] = {"person": self.person, "name": self.name, "texts": [*self.texts]}
        if self.turn is not None:
            body["turn"] = self.turn
        flags = {"deep": self.deep, "think": self.thinks, "goes_on": self.continues}
        body |= {name: True for name, is_set in flags.items() if is_set}
        if self.late or self.left_out:
            body |= {"late": self.late, "left_out": self.left_out}
        return body


@dataclass(frozen=True, slots=True)
class HookPost(StoredBody):
    """What was posted to a hook: text of others. `name`: the hook's, as its messages begin."""

    hook: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ForgetOrder:
    """A /forget; `tells`: the chat hears of its end, in this language."""

    asked_at: float
    tells: bool
    language: str | None

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        return cls(float(body["asked_at"]), bool(body["tell"]), body.get("language"))

    def serialize(self) -> dict[str, Any]:
        return {
            "job": FORGET_JOB,
            "asked_at": self.asked_at,
            "tell": self.tells,
            "language": self.language,
        }


@dataclass(frozen=True, slots=True)
class ExportOrder(StoredBody):
    """An export that a person wants of a lane, with all topics of its chat if it is the chat's own.

    It ends with `last_turn`. Stored are so many parts, up to turn `after_turn` of `after_lane`, and the kept
    files up to `after_file`.
    """

    job = EXPORT_JOB
    lane: Lane
    person: int
    with_files: bool
    last_turn: int
    parts: int = 0
    after_lane: str = ""
    after_turn: int = 0
    after_file: int = 0


@dataclass(frozen=True, slots=True)
class SummaryOrder(StoredBody):
    """Turns of a conversation to summarize, up to this one."""

    job = SUMMARY_JOB
    lane: Lane
    conversation: int
    upto: int


@dataclass(frozen=True, slots=True)
class SpeechOrder(StoredBody):
    """An answer to read out in this lane; the text stays with its turn.

    `person`: who asked. `reply_to`: the message that the answer replies to.
    """

    job = SPEECH_JOB
    turn: int
    lane: Lane
    person: int
    reply_to: int | None


@dataclass(frozen=True, slots=True)
class ToolOrder:
    """What a command about tools has done outside its transaction: `act`, for this person, told in this lane.

    `words`: its arguments. `message`: one of that chat that is deleted.
    `error`: why there is no account after a sign-in, "" if there is one.
    `is_personal`: the sign-in was for an account of the person's own.
    """

    act: str
    person: int
    name: str
    lane: Lane
    words: str = ""
    message: int | None = None
    error: str | None = None
    is_personal: bool = False

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            act=str(body["do"]),
            person=int(body["person"]),
            name=str(body["name"]),
            lane=Lane.parse(body["lane"]),
            words=str(body.get("words", "")),
            message=body.get("message"),
            error=body.get("error"),
            is_personal=bool(body.get("personal")),
        )

    def serialize(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "job": TOOLS_JOB,
            "do": self.act,
            "person": self.person,
            "name": self.name,
            "lane": self.lane.key,
        }
        if self.message is not None:
            return body | {"message": self.message}
        if self.error is not None:
            return body | {"words": self.words, "error": self.error, "personal": self.is_personal}
        return body | {"words": self.words}
