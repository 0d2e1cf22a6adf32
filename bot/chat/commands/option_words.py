"""Splits what follows /tools add or configure into words and options, the same as on the command line. Pure.

Phones turn -- into a dash and quotes into curly ones; both are taken for what was typed.
"""

import shlex
from collections.abc import Collection

from bot.errors import ChangeRefused

_TYPED = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\N{EN DASH}": "--", "—": "--"})


def split_options(
    text: str, known: Collection[str], flags: Collection[str] = ()
) -> tuple[list[str], list[tuple[str, str]]]:
    """The words of a text without its options, and these, by name and value.

    An option is written as `--name value` or `--name=value`, one of `flags` as `--name`; its value is empty.
    Raises ChangeRefused for others than `known` and `flags`.
    """
    try:
        pending = shlex.split(_restore_typed(text))[::-1]
    except ValueError:
        raise ChangeRefused("A closing quotation mark is missing.") from None
    words: list[str] = []
    options: list[tuple[str, str]] = []
    while pending:
        word = pending.pop()
        if not word.startswith("--"):
            words.append(word)
            continue
        name, has_value, value = word.removeprefix("--").partition("=")
        if word.removeprefix("--") in flags:
            options.append((name, ""))
            continue
        if name not in known:
            names = ", --".join((*known, *flags))
            raise ChangeRefused(
                "There is no option --{name}; choose from --{names}.", name=name[:30], names=names
            )
        if not has_value:
            if not pending:
                raise ChangeRefused("--{name} needs a value.", name=name)
            value = pending.pop()
        options.append((name, value))
    return words, options


def _restore_typed(text: str) -> str:
    """The text with dashes at the beginning of words, and quotes, as a keyboard has them."""
    words = [word.translate(_TYPED) if word[:1] in "—\N{EN DASH}" else word for word in text.split(" ")]
    return " ".join(words).translate({key: value for key, value in _TYPED.items() if value in "\"'"})
