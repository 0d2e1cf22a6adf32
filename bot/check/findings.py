"""Verdicts, findings, and the report of a check with the exit code of its worst finding. Pure values."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bot.check.observations import Observations

FindingStatus = Literal["pass", "warn", "fail", "unknown"]

WORST_FIRST: Final[tuple[FindingStatus, ...]] = ("fail", "warn", "unknown", "pass")
EXIT_CODES: Final[dict[FindingStatus, int]] = {"pass": 0, "fail": 1, "warn": 3, "unknown": 4}
"""2 is left out: the command line exits with it when an option or a setting is wrong."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was observed and how it is judged; `mend` is the flag that fixes it, or what else does."""

    status: FindingStatus
    seen: str
    mend: str | None = None

    def to_finding(self, name: str, meaning: str) -> "Finding":
        """The row of the report; `meaning` is what it means for the gateway."""
        return Finding(name, self.status, self.seen, meaning, self.mend)


@dataclass(frozen=True, slots=True)
class CheckRule:
    """One thing that a check judges: its name, what it means for the gateway, and its judge."""

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
    """All findings about the endpoint at `url`; `stopped` says why the probe did not finish."""

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
        return find_worst(finding.status for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 all passes, 1 something fails, 3 something is worth a warning, 4 something is unknown."""
        return EXIT_CODES[self.worst]

    def get_finding(self, name: str) -> Finding:
        """The finding of this name; raises KeyError if there is none."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)


def find_worst(statuses: Iterable[FindingStatus]) -> FindingStatus:
    """The worst of them; "unknown" where there are none."""
    return min(statuses, key=WORST_FIRST.index, default="unknown")


def pass_verdict(observation: str) -> Verdict:
    """The gateway works with it as it should."""
    return Verdict("pass", observation)


def warn_verdict(observation: str, fix: str | None = None) -> Verdict:
    """The gateway works with it, but loses something."""
    return Verdict("warn", observation, fix)


def fail_verdict(observation: str, fix: str | None = None) -> Verdict:
    """The gateway does not work with it as it should."""
    return Verdict("fail", observation, fix)


def unknown_verdict(reason: str) -> Verdict:
    """It could not be judged, and why."""
    return Verdict("unknown", reason)
