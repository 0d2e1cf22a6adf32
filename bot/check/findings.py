"""The words of a check: verdicts, findings, and the report with the exit code of its worst. Pure values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bot.check.observations import Observations

FindingStatus = Literal["pass", "warn", "fail", "unknown"]

WORST_FIRST: Final[tuple[FindingStatus, ...]] = ("fail", "warn", "unknown", "pass")
EXIT_CODES: Final[dict[FindingStatus, int]] = {"pass": 0, "fail": 1, "warn": 3, "unknown": 4}
"""2 is left out: the command line ends with it when an option or a setting is wrong."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was seen and how it is judged; `mend` is the flag, or what else to do."""

    status: FindingStatus
    seen: str
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class CheckRule:
    """One thing that is looked at: its name, what it means to the gateway, and who judges it."""

    name: str
    meaning: str
    judge: Callable[[Observations], Verdict]


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the report."""

    name: str
    status: FindingStatus
    seen: str
    meaning: str
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings about the endpoint at `url`; `stopped` says why the probe did not come to its end."""

    url: str
    findings: Sequence[Finding]
    calls: int
    max_calls: int
    seconds: float
    template: str | None = None
    stopped: str | None = None

    @property
    def worst(self) -> FindingStatus:
        """The status that decides the exit code."""
        found = {finding.status for finding in self.findings}
        return next((status for status in WORST_FIRST if status in found), "unknown")

    @property
    def exit_code(self) -> int:
        """0 all is well, 1 something fails, 3 something is worth a warning, 4 something could not be told."""
        return EXIT_CODES[self.worst]

    def get_finding(self, name: str) -> Finding:
        """The finding of this name; KeyError if there is none."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)


def pass_verdict(observation: str) -> Verdict:
    """All is well."""
    return Verdict("pass", observation)


def warn_verdict(observation: str, fix: str | None = None) -> Verdict:
    """The gateway works with it, but something is lost."""
    return Verdict("warn", observation, fix)


def fail_verdict(observation: str, fix: str | None = None) -> Verdict:
    """The gateway does not work with it as it should."""
    return Verdict("fail", observation, fix)


def unknown_verdict(reason: str) -> Verdict:
    """It could not be told, and why."""
    return Verdict("unknown", reason)
