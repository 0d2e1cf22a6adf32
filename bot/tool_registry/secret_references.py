"""Names of stored secrets in texts, such as `Bearer {weather}`. Pure.

What is registered holds secrets by name only; they are filled in where a request is about to be made.
"""

import re
from collections.abc import Iterable, Mapping

_SECRET_REFERENCE = re.compile(r"\{([A-Za-z0-9_-]+)\}")


class MissingSecret(Exception):
    """A source names a secret that is not stored."""


def fill_secrets(texts: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Fill texts such as `Bearer {weather}` with the secrets they name. Raises MissingSecret."""

    def get_secret(match: re.Match[str]) -> str:
        name = match[1]
        if name not in secrets:
            command = f"canvasgram tools secret set {name}"
            raise MissingSecret(f"the secret {name} is missing: store it on the machine with `{command}`")
        return secrets[name]

    return {key: _SECRET_REFERENCE.sub(get_secret, text) for key, text in texts.items()}


def find_secret_names(texts: Iterable[str]) -> list[str]:
    """The names of the secrets that these texts name, each once."""
    return list(dict.fromkeys(name for text in texts for name in _SECRET_REFERENCE.findall(text)))


def remove_references(text: str) -> str:
    """The text without the names of secrets."""
    return _SECRET_REFERENCE.sub("", text)
