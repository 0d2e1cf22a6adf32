"""Every way in which this house fails, as one tree; the docstring of a class is the sentence it is raised
for.

CanvasgramError
├── SettingsRefused          a setting is missing or wrong
├── QuestionRefused          what is asked for cannot be meant as it is written
├── NothingFound             the ledger holds nothing of what was asked for
├── ChangeRefused            what an admin wants of the tools cannot be done as it was asked
│   └── NeedsConfirming      it can, once they have read why they should look twice
├── GatewayRunning           another gateway holds this database
├── SchemaUnknown            the database was written by a newer version
├── StoreUnavailable         the database cannot be written now
├── BackupFailed             a backup could not be made
├── RestoreRefused           a file is no backup that can be put back
├── JobFailed                a job of the house did not do what it is for
├── TelegramConflict         another program polls with the same token
├── TelegramRefused          Telegram does not know this token
├── TelegramAway             Telegram does not answer, or not as the Bot API would
├── ServerAway               nothing that speaks the protocol answers at this address
├── KeyRefused               the endpoint wants a key, or another one
├── AttachmentUnusable       what came with a message cannot be fetched, opened or understood
└── CallFailed               a model call ended without a reply
    ├── EndpointAway         down, loading, busy or cut: the same request may be sent again
    ├── PromptTooLong        the prompt does not fit the context
    └── EndpointRefused      refused for what it is: asking again would change nothing
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.domain import Reply


class CanvasgramError(Exception):
    """The base of all errors of this house; its text is one sentence for a person."""


class SettingsRefused(CanvasgramError):
    """A setting is missing or wrong: says which, what is wrong with it, and an example."""


class QuestionRefused(CanvasgramError):
    """A question to the ledger, or a measurement, cannot be meant as it is written: says how it may be
    written.
    """


class NothingFound(CanvasgramError):
    """The ledger holds nothing of what was asked for."""


class ChangeRefused(CanvasgramError):
    """What an admin wants of the tools cannot be done as it was asked: says why, and what they may do."""


class NeedsConfirming(ChangeRefused):
    """It can be done once an admin has read `reasons`, a short sentence each, and says so."""

    def __init__(self, summary: str, reasons: tuple[str, ...]) -> None:
        super().__init__(f"{summary} {' '.join(reasons)}")
        self.summary = summary
        self.reasons = reasons


class GatewayRunning(CanvasgramError):
    """Another gateway works on this database; two would answer the same message twice."""


class SchemaUnknown(CanvasgramError):
    """The database has a schema this version does not know; a newer version wrote it."""


class StoreUnavailable(CanvasgramError):
    """The database cannot be read or written now (disk full, locked, gone): the same work may be tried again."""


class BackupFailed(CanvasgramError):
    """A backup could not be made: says where, and why."""


class RestoreRefused(CanvasgramError):
    """A file cannot be put back in the database's place: says why."""


class JobFailed(CanvasgramError):
    """A job of the house did not do what it is for; its text is for admins, and the same for the same cause."""


class TelegramConflict(CanvasgramError):
    """Another program fetches updates with the same bot token."""


class TelegramRefused(CanvasgramError):
    """Telegram does not accept the bot token."""


class TelegramAway(CanvasgramError):
    """Telegram does not answer, or not as the Bot API would."""


class ServerAway(CanvasgramError):
    """Nothing that speaks the endpoint's protocol answers at this address, or it is not ready."""


class KeyRefused(CanvasgramError):
    """The endpoint wants a key, or another one."""


class AttachmentUnusable(CanvasgramError):
    """What came with a message cannot be fetched, opened or understood; the text says why, after `because`."""


class CallFailed(CanvasgramError):
    """A model call ended without a whole reply; `partial` is what had come by then, usage and times included."""

    def __init__(self, reason: str, partial: "Reply") -> None:
        super().__init__(reason)
        self.partial = partial


class EndpointAway(CallFailed):
    """The endpoint is down, loading, busy, silent or cut the stream: the same request may be sent again."""


class PromptTooLong(CallFailed):
    """The endpoint refused the prompt because it is longer than its context."""


class EndpointRefused(CallFailed):
    """The endpoint refused the request for what it is (key, model name, parameters): again would change
    nothing.
    """


REFUSING = "The endpoint refused the request (HTTP {}): {}"
"""What is said of a refusal without a name, with its status and the endpoint's own words, which may repeat a
text.
"""
