"""Which secrets a service wants by its document, and the words that give them to it. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.tool_registry.service_access import ServiceAccess
from bot.translations.translator import Translator

if TYPE_CHECKING:
    from tools.openapi.authentication import AuthRequirement


@dataclass(frozen=True, slots=True)
class SecretSuggestion:
    """A secret that is wanted: what it is, a name for it, and the option that gives it to the service.

    `option` is None for what cannot be given.
    """

    need: str
    secret_name: str
    option: str | None
    text: str = ""

    def format_for_command_line(self) -> str:
        """Say it to somebody at the machine."""
        if self.option is None:
            return f"It needs {self.need}."
        return (
            f"It needs {self.need}: keep it with `canvasgram tools secret set {self.secret_name}`, "
            f"then add --{self.option} '{self.text}'"
        )

    def format_for_chat(self, translate: Translator, source_name: str) -> str:
        """Say it to somebody in a chat."""
        if self.option is None:
            return translate("It needs {secret}.", secret=self.need)
        hint = translate(
            "It needs {secret}: store it on the server with `{command}`, then write here",
            secret=self.need,
            command=f"canvasgram tools secret set {self.secret_name}",
        )
        return f"{hint}\n/tools configure {source_name} --{self.option} '{self.text}'"


def suggest_secrets(
    source_name: str, needs: "Sequence[AuthRequirement]", access: ServiceAccess
) -> Iterator[SecretSuggestion]:
    """Yield what the service wants and does not get yet."""
    header_names = {name.lower() for name in access.headers}
    has_authorization = bool(access.basic) or "authorization" in header_names
    for need in needs:
        key_name = source_name
        if len(needs) > 1:
            key_name = _build_secret_name(source_name, need.name)
        match need.kind:
            case "header" if need.name.lower() not in header_names:
                yield SecretSuggestion(need.text, key_name, "header", f"{need.name}: {{{key_name}}}")
            case "query" if need.name not in access.query:
                yield SecretSuggestion(need.text, key_name, "query", f"{need.name}={{{key_name}}}")
            case "cookie" if need.name not in access.cookies:
                yield SecretSuggestion(need.text, key_name, "cookie", f"{need.name}={{{key_name}}}")
            case "bearer" | "oauth" if not has_authorization:
                name = _build_secret_name(source_name, "token")
                yield SecretSuggestion(need.text, name, "header", f"Authorization: Bearer {{{name}}}")
            case "basic" if not has_authorization:
                name = _build_secret_name(source_name, "password")
                yield SecretSuggestion(need.text, name, "basic", f"NAME:{{{name}}}")
            case "other":
                yield SecretSuggestion(need.text, "", None)


def _build_secret_name(source_name: str, part: str) -> str:
    return f"{source_name}_{re.sub(r'[^a-z0-9]+', '_', part.lower()).strip('_')}"[:64].rstrip("_")
