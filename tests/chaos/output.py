"""What a chaos run prints: every anomaly with its reason, a table of counts, and the conditions. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from bot.tables import Line, TextTable
from tests.chaos.anomaly import BREACHES, EXPLAINED, Anomaly
from tests.chaos.journal import Journal
from tests.chaos.state import ChaosRun


def format_run(
    run: ChaosRun, journal: Journal, anomalies: Sequence[Anomaly], conditions: Sequence[tuple[str, str]]
) -> Iterator[Line]:
    """The lines to print."""
    yield from map(str, anomalies)
    yield ""
    counts = Counter(anomaly.kind for anomaly in anomalies)
    rows = [
        ("messages written", str(len(journal.requests))),
        ("in chats", str(len({request.chat for request in journal.requests}))),
        ("replicas", str(run.options.replicas)),
        ("kill -9", str(run.kills)),
        ("  of the one that polls", str(run.leader_kills)),
        ("SIGTERM", str(run.terminations)),
        *((f"  {moment}", str(count)) for moment, count in _count_kills(journal)),
        *((f"{name}", str(count)) for name, count in _count_disturbances(journal)),
        ("messages of the bot", str(len(journal.messages))),
        ("reminders and tasks", str(len(journal.jobs))),
        ("tool calls", str(len(journal.tool_runs))),
        *((f"BREACH: {kind}", str(counts[kind])) for kind in BREACHES),
        *((f"explained: {kind}", str(counts[kind])) for kind in EXPLAINED),
    ]
    yield TextTable("", ("", "count"), rows)
    yield ""
    yield TextTable("", (), conditions, text_columns=2)


def _count_kills(journal: Journal) -> list[tuple[str, int]]:
    """How often it was killed at each moment."""
    names = (disturbance.name for disturbance in journal.disturbances if disturbance.name.startswith("kill"))
    return sorted(Counter(name.partition(",")[0] for name in names).items())


def _count_disturbances(journal: Journal) -> list[tuple[str, int]]:
    """How often each kind of thing was done, whatever it hit and however long it took; ends are left out."""
    names = (disturbance.name for disturbance in journal.disturbances if not disturbance.is_end)
    return sorted(Counter(name.partition(" for ")[0].rpartition(": ")[2] for name in names).items())
