"""What `canvasgram status` shows: whether all is well now, a line a part, and an exit code for monitors.

Reads the database, the newest backup's name and the disk, and asks the endpoint and Telegram once. It works
beside a running gateway and without one, and changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.check.findings import EXIT_CODES, Verdict, fail_verdict, find_worst, pass_verdict, warn_verdict
from bot.check.probe import probe_briefly, resolve_options
from bot.check.telegram_probe import probe_telegram
from bot.cli.version import describe_version
from bot.db.database_url import describe_database, find_data_folder, find_database_file
from bot.db.queues.current_work import SIGN_OF_LIFE_SECONDS, CurrentWork, load_current_work
from bot.db.readonly import open_readonly
from bot.domain import DAY_SECONDS
from bot.jobs.user_jobs import shorten_text
from bot.maintenance.backup import MAX_BACKUP_DAYS, build_backup_directory
from bot.maintenance.system_jobs import MIN_FREE_BYTES, count_free_bytes
from bot.settings import Settings, load_settings
from bot.tables import Line, TextTable
from bot.translations.formats import format_duration, format_size
from bot.translations.translator import ENGLISH
from bot.usage.plain_text import escape_for_terminal

MAX_WAITING_SECONDS = 300.0  # that a message may wait before it is worth a warning
MAX_NOTICE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Status:
    """How each part is, by name, and what admins were told in the last day; a notice changes no exit code."""

    verdicts: Mapping[str, Verdict]
    notices: Sequence[str]

    @property
    def exit_code(self) -> int:
        """That of the worst part, as `canvasgram check` has them."""
        return EXIT_CODES[find_worst(verdict.status for verdict in self.verdicts.values())]


async def load_status(env_file: Path, *, now: float) -> Status:
    """Look at each part once. Raises SettingsRefused, or why there is no database to be read."""
    settings = load_settings(env_file)
    async with open_readonly(settings.database_url) as database, database.read_transaction() as tx:
        work = await load_current_work(tx, now=now)
    options = resolve_options(None, None, env_file)
    verdicts = {
        "gateway": judge_gateway(work, now),
        "telegram": await _probe_telegram(options.bot_url or "", settings.telegram_proxy),
        "model": await probe_briefly(options),
        "queue": judge_queue(work, now),
        "answers": judge_answers(work),
        "database": _judge_database(settings),
        "backup": _judge_backup(settings, now),
        "people": pass_verdict(f"{work.strangers} wait to be let in"),
    }
    notices = [
        f"{_format_ago(now - notice.told_at)}: "
        f"{escape_for_terminal(shorten_text(notice.text, MAX_NOTICE_CHARS))}"
        for notice in work.notices
        if now - notice.told_at < DAY_SECONDS
    ]
    return Status(verdicts, notices)


def render_status(status: Status) -> list[Line]:
    """One line that sums it up, the table with what to do about what is not well, and the notices."""
    cells = list[tuple[str, str, str]]()
    for name, verdict in status.verdicts.items():
        cells.append((verdict.status, name, escape_for_terminal(verdict.seen)))
        if verdict.mend:
            cells.append(("", "", f"Fix: {verdict.mend}"))
    bad_names = [name for name, verdict in status.verdicts.items() if verdict.status != "pass"]
    summary = f"Look at: {', '.join(bad_names)}." if bad_names else "All is well."
    first_line = f"Canvasgram {describe_version()}: {summary}"
    lines = list[Line]([first_line, "", TextTable("", (), cells, text_columns=3)])
    if status.notices:
        lines += ["", "Admins were told in the last 24 hours:", *status.notices]
    return lines


def judge_gateway(work: CurrentWork, now: float) -> Verdict:
    """Whether one runs, by its last sign of life."""
    if work.seen_at is None:
        return fail_verdict("it has never run", "canvasgram run")
    if work.running_at is None:
        return fail_verdict(f"stopped {_format_ago(now - work.seen_at)}", "canvasgram run")
    if now - work.running_at > SIGN_OF_LIFE_SECONDS:
        silence = _format_ago(now - work.running_at)
        return fail_verdict(f"last seen {silence}, and not stopped in order", "start it; its log says more")
    return pass_verdict(f"runs since {_format_duration(now - (work.began_at or now))}")


def judge_queue(work: CurrentWork, now: float) -> Verdict:
    """What waits to be answered, and what waits for a person."""
    seen = []
    oldest_seconds = 0.0
    if work.waiting_items:
        oldest_seconds = now - min(lane.since for lane in work.waiting)
        seen.append(f"{work.waiting_items} wait, the oldest for {_format_duration(oldest_seconds)}")
    if work.parked:
        seen.append(f"{work.parked} wait for a person's answer")
    judge = warn_verdict if oldest_seconds > MAX_WAITING_SECONDS else pass_verdict
    return judge("; ".join(seen) or "nothing waits")


def judge_answers(work: CurrentWork) -> Verdict:
    """What failed in the last day, and what may not have arrived."""
    if not work.failed and not work.unknown:
        return pass_verdict("none failed in 24 hours")
    seen = f"{work.failed} failed in 24 hours; of {len(work.unknown)} in 7 days delivery is unknown"
    return warn_verdict(seen, "canvasgram report --list turns")


def judge_backup(newest_at: float | None, now: float) -> Verdict:
    """Whether the newest backup, begun at this time (epoch seconds; None: there is none), is new enough."""
    if newest_at is None:
        return warn_verdict("there is none yet", "canvasgram backup")
    age_seconds = now - newest_at
    if age_seconds > MAX_BACKUP_DAYS * DAY_SECONDS:
        return fail_verdict(f"the newest was made {_format_ago(age_seconds)}", "canvasgram jobs says why")
    return pass_verdict(f"the newest was made {_format_ago(age_seconds)}")


def _judge_backup(settings: Settings, now: float) -> Verdict:
    if find_database_file(settings.database_url) is None:
        return pass_verdict("PostgreSQL's own are not seen from here")
    backup_directory = build_backup_directory(settings)
    if backup_directory is None:
        return warn_verdict("none is made", "name a folder in BACKUP_DIR")
    return judge_backup(backup_directory.find_newest_time(), now)


def _judge_database(settings: Settings) -> Verdict:
    name = describe_database(settings.database_url)
    file = find_database_file(settings.database_url)
    free_bytes = count_free_bytes(find_data_folder(settings.database_url))
    size = f", {format_size(ENGLISH, file.stat().st_size)}" if file is not None else ""
    seen = f"{name}{size}; {format_size(ENGLISH, free_bytes)} free"
    if free_bytes < MIN_FREE_BYTES:
        return fail_verdict(seen, "free some space: once the disk is full, nobody is answered")
    return pass_verdict(seen)


async def _probe_telegram(bot_url: str, proxy: str | None) -> Verdict:
    finding, *_ = await probe_telegram(bot_url, proxy=proxy)
    if finding.status == "pass":
        return pass_verdict("it knows the bot")
    return Verdict(finding.status, finding.seen, finding.mend)


def _format_duration(seconds: float) -> str:
    return format_duration(ENGLISH, max(0.0, seconds))


def _format_ago(seconds: float) -> str:
    return f"{_format_duration(seconds)} ago"
