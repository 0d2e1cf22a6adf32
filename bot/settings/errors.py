"""Words in which a wrong setting is refused: its name, what it must be, and an example. Pure."""

import re
from collections.abc import Callable, Mapping

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from bot.errors import SettingMissing, SettingsRefused


def describe_refusal(
    error: ValidationError, fields: Mapping[str, FieldInfo], format_example: Callable[[str], str]
) -> SettingsRefused:
    """The first thing that is wrong with one of `fields`; `format_example` gives an example of a setting."""
    first = error.errors(include_input=False, include_url=False)[0]
    name = str(first["loc"][0])
    example = f"Example: {format_example(name)}"
    if first["type"] == "missing":
        description = fields[name].description
        return SettingMissing(
            f"{name.upper()} is missing: {description}. `canvasgram setup` asks for it. {example}"
        )
    message = re.sub("^(Value error, )?(Input should be)?", _rephrase, first["msg"])
    problem = message.partition(", unable")[0]
    return SettingsRefused(f"{name.upper()} {problem}. {example}")


def _rephrase(match: re.Match[str]) -> str:
    if match[2]:
        return "must be"
    return ""
