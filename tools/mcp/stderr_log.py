"""What a program writes on stderr: logged once, and quoted where it has ended or does not start."""

import logging
import re
from collections import deque

MAX_RUN_LINES = 200  # that are logged of one run
MAX_LINE_CHARS = 300
MAX_QUOTED_LINES = 3
MAX_QUOTED_CHARS = 200  # of each

# Lines that say what is wrong, and those that at least say that something is; the others say where in
# somebody's code it was noticed, or how it might be mended.
_TELLING = re.compile(
    r"(?:error|exception): |\b(?:missing|required|must|cannot|could not|not found|is not|denied|invalid)\b",
    re.IGNORECASE,
)
_COMPLAINING = re.compile(r"\b(?:\w*error|\w*exception|fatal|failed|usage)\b", re.IGNORECASE)
_NUMBERS = re.compile(r"\d+")

log = logging.getLogger(__name__)


class StderrLog:
    """The stderr of one server, run after run; a line that the last run wrote as well is not logged again."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._lines: deque[str] = deque(maxlen=MAX_RUN_LINES)
        self._count = 0
        self._known_lines: frozenset[str] = frozenset()

    def begin_run(self) -> None:
        """Note that the program is started, again or for the first time."""
        self._known_lines = frozenset(strip_numbers(line) for line in self._lines)
        self._lines.clear()
        self._count = 0

    def add(self, line: str) -> None:
        """Note a line, and log it if it is news and not too much."""
        text = line.strip()[:MAX_LINE_CHARS]
        self._lines.append(text)
        self._count += 1
        if self._count <= MAX_RUN_LINES and strip_numbers(text) not in self._known_lines:
            log.info("%s", text, extra={"action": "mcp.stderr", "server": self.server})

    def quote(self) -> str:
        """The lines of this run that say most, to be put behind a reason; empty if it wrote none."""
        written = [line for line in self._lines if line]
        telling = [line for line in written if _TELLING.search(line)]
        complaining = [line for line in written if _COMPLAINING.search(line)]
        quoted = (telling or complaining or written[-1:])[-MAX_QUOTED_LINES:]
        if not quoted:
            return ""
        return f", and wrote: {' · '.join(line[:MAX_QUOTED_CHARS] for line in quoted)}"


def strip_numbers(text: str) -> str:
    """A text without its numbers, such as times, so that it can be compared with another."""
    return _NUMBERS.sub("0", text)
