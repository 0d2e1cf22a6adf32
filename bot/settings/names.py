"""Names in a settings file or the environment that are no setting, and the setting each looks like."""

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from dotenv.parser import Binding, parse_stream

# The share of letters that two names have in common, in order. TELEGRAM_BOT_TOKEN has 0.875 of
# TELEGRAM_TOKEN; TELEGRAM_API_ID, which Telegram's own server reads, has 0.84 of TELEGRAM_API_URL.
_FILE_LIKENESS = 0.87
_ENVIRONMENT_LIKENESS = 0.9  # other programs' variables are there, too
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_OTHERS_NAMES = re.compile(r"COMPOSE_\w+|DOCKER_\w+|HF_\w+|VLLM_\w+|TZ")
MAX_NAMES = 200
REMOVED_NAMES = frozenset(
    {
        "JOBS_MINUTES",
        "JOBS_PER_PERSON",
        "JOBS_TOTAL",
        "MODEL_WAIT",
        "SEARCH_PROVIDER",
        "THINKING_CANVASES",
        "TOOLS_PROMPT_TOKENS",
        "TURN_CALLS",
        "TURN_STEPS",
        "WAITING_MESSAGES",
    }
)
"""Settings of earlier versions, which are constants now: they are logged, and end no start."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name that is no setting, and the setting it looks like (None: none).

    `name` is `line 3` for what may be a secret on a line of its own, such as an old token or a wrapped key.
    """

    name: str
    nearest: str | None


def list_unknown_in_file(env_file: Path | str | None, settings: Collection[str]) -> list[UnknownName]:
    """The names in a settings file that are no setting, apart from those compose.yaml reads."""
    if env_file is None or not Path(env_file).is_file():  # a pipe can be read only once
        return []
    with Path(env_file).open(encoding="utf-8") as stream:
        bindings = {binding.key: binding for binding in parse_stream(stream) if binding.key}
    unknown = [
        (name, binding)
        for name, binding in bindings.items()
        if name.upper() not in settings and not _OTHERS_NAMES.fullmatch(name)
    ]
    return [_describe_unknown(name, binding, settings) for name, binding in unknown[:MAX_NAMES]]


def _describe_unknown(name: str, binding: Binding, settings: Collection[str]) -> UnknownName:
    nearest = _find_nearest(name, settings, _FILE_LIKENESS)
    has_value = bool((binding.value or "").strip("="))  # the end of a wrapped Base64 key is `=`, too
    if nearest is None and not (_NAME.fullmatch(name) and has_value):
        blank_lines = binding.original.string.partition(name)[0].count("\n")
        return UnknownName(f"line {binding.original.line + blank_lines}", None)
    return UnknownName(name, nearest)


def list_misspelled_variables(variables: Iterable[str], settings: Collection[str]) -> list[UnknownName]:
    """The variables of the environment that are surely meant as a setting, and are none."""
    unknown = [name for name in variables if name.isupper() and name not in settings]
    pairs = [UnknownName(name, _find_nearest(name, settings, _ENVIRONMENT_LIKENESS)) for name in unknown]
    return [pair for pair in pairs if pair.nearest is not None]


def _find_nearest(name: str, settings: Collection[str], likeness: float) -> str | None:
    if len(name) > 2 * max(map(len, settings)):  # comparing takes the product of both lengths
        return None
    matches = difflib.get_close_matches(name.upper(), settings, n=1, cutoff=likeness)
    return next(iter(matches), None)
