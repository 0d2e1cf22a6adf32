"""The failures that packages share, as one tree; a class's docstring says when it is raised.

One that a single package raises, for itself or for its command, stands there.

CanvasgramError
├── SettingsRefused          a setting is missing or wrong
├── QuestionRefused          a query or an option makes no sense as written
├── NothingFound             the database holds nothing that was asked for
├── ChangeRefused            a change cannot be made as requested
│   └── NeedsConfirming      it can, once the admin has read the reasons for a second look
├── GatewayRunning           another gateway holds this database
├── SchemaUnknown            the database was written by a newer version
├── StoreUnavailable         the database cannot be written now
│   ├── StoreBusy            somebody else uses it at the moment
│   └── StoreReplaced        its file was removed or replaced
├── ShareLost                another replica answers these chats by now
├── ReadTooSlow              a read took longer than it may
├── BackupFailed             a backup could not be made
├── RestoreRefused           a file cannot be restored
├── JobFailed                a system job did not do what it is for
├── TelegramRefused          Telegram does not know this token
├── TelegramAway             Telegram does not answer, or not as the Bot API would
├── ServerAway               nothing that speaks the protocol answers at this address
├── KeyRefused               the endpoint requires a key, or another one
├── AttachmentUnusable       an attachment cannot be fetched, opened or understood
├── SpeechFailed             a text could not be read out
└── CallFailed               a model call ended without a reply
    ├── EndpointAway         down, loading, busy or cut: the same request may be sent again
    ├── PromptTooLong        the prompt does not fit the context
    └── EndpointRefused      refused for what it is: repeating it would change nothing
"""

from typing import TYPE_CHECKING

from bot.translations.translator import DeferredText, Translator

if TYPE_CHECKING:
    from bot.domain import Reply


class CanvasgramError(Exception):
    """Base of all errors the project raises; the text is one sentence for users.

    A text that chats show is in the catalogues, and gets its values by name: str() gives it in English.
    """

    def __init__(self, text: str = "", /, **values: object) -> None:
        self._text = DeferredText(text, values)
        super().__init__(str(self._text))

    def explain(self, translate: Translator) -> str:
        """Return the text in the language of its reader."""
        return self._text(translate)


class SettingsRefused(CanvasgramError):
    """A setting is missing or wrong. The text names it, the problem and an example."""


class SettingMissing(SettingsRefused):
    """A setting that has no default is not set."""


class QuestionRefused(CanvasgramError):
    """A query or an option makes no sense as written. The text says how to write it."""


class NothingFound(CanvasgramError):
    """The database holds nothing that was asked for."""


class ChangeRefused(CanvasgramError):
    """A change that somebody asks for cannot be made. The text says why, and what to do instead."""


class NeedsConfirming(ChangeRefused):
    """The change needs a confirmation: an admin has to read `reasons`, one short sentence each."""

    def __init__(self, summary: str, /, *, reasons: tuple[str, ...], **values: object) -> None:
        super().__init__(summary, **values)
        self.reasons = reasons

    def __str__(self) -> str:
        return " ".join((super().__str__(), *self.reasons))


class GatewayRunning(CanvasgramError):
    """Another gateway uses this database; two would answer the same message twice."""


class SchemaUnknown(CanvasgramError):
    """A newer version wrote the database; this version does not know its schema."""


class StoreUnavailable(CanvasgramError):
    """The database cannot be used now (disk full, locked, gone); the same work may be retried."""


class StoreBusy(StoreUnavailable):
    """Another program, or another page, uses the database longer than one waits for it."""


class StoreReplaced(StoreUnavailable):
    """The file of the database is gone, or another one is in its place; the gateway ends then."""


class ShareLost(CanvasgramError):
    """Another replica answers these chats by now: nothing more may be written or sent for them."""


class ReadTooSlow(CanvasgramError):
    """A read of the admin page took longer than it may, and was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "This took longer than {seconds:g} seconds. Choose a shorter period.", seconds=seconds
        )


class BackupFailed(CanvasgramError):
    """A backup failed. The text says where, and why."""


class RestoreRefused(CanvasgramError):
    """A file cannot replace the database. The text says why."""


class JobFailed(CanvasgramError):
    """A system job failed. The text is for admins, and the same for the same cause."""


class TelegramRefused(CanvasgramError):
    """Telegram does not accept the bot token."""


class TelegramAway(CanvasgramError):
    """Telegram does not answer, or not as the Bot API would."""


class ServerAway(CanvasgramError):
    """Nothing that speaks the endpoint's protocol answers at this address, or it is not ready."""


class KeyRefused(CanvasgramError):
    """The endpoint requires a key, or another one."""


class AttachmentUnusable(CanvasgramError):
    """An attachment cannot be fetched, opened or understood. The text completes "because …"."""


class SpeechFailed(CanvasgramError):
    """A text could not be read out. The text says what the service did."""


class CallFailed(CanvasgramError):
    """A model call ended without a whole reply; `partial` holds what had arrived, with usage and times."""

    def __init__(self, reason: str, partial: "Reply") -> None:
        super().__init__(reason)
        self.partial = partial


class EndpointAway(CallFailed):
    """The endpoint is down, loading, busy, silent or cut the stream; the same request may be retried."""


class PromptTooLong(CallFailed):
    """The endpoint refused the prompt because it is longer than its context."""


class EndpointRefused(CallFailed):
    """The endpoint refused the request for what it is (key, model, parameters); a retry cannot help."""


REFUSING = "The endpoint refused the request (HTTP {}): {}"
"""Text of a refusal without a class of its own: the status and the endpoint's words, which may quote a user.

Retention finds rows written by earlier versions by this text: do not change it.
"""
