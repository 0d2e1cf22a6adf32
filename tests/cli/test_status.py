"""`canvasgram status`: one screen that says whether all is well, with an exit code for monitors."""

import time
from pathlib import Path

import pytest

from bot.cli.status import (
    MAX_WAITING_SECONDS,
    Status,
    judge_backup,
    judge_gateway,
    judge_queue,
    load_status,
    render_status,
)
from bot.db.queues.current_work import SIGN_OF_LIFE_SECONDS, CurrentWork, WaitingLane
from bot.domain import DAY_SECONDS
from bot.maintenance.backup import MAX_BACKUP_DAYS
from bot.tables import TextTable
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, open_harness

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, in which a gateway keeps its backups."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def load(gateway: GatewayHarness, folder: Path) -> Status:
    """The status of a gateway, read beside it by the settings of its file."""
    settings = gateway.settings
    env_file = folder / ".env"
    env_file.write_text(
        f"TELEGRAM_TOKEN={settings.telegram_token.get_secret_value()}\n"
        f"TELEGRAM_API_URL={settings.telegram_api_url}\nMODEL_URL={settings.model_url}\n"
        f"DATABASE_URL={settings.database_url}\nBACKUP_DIR={folder / 'backups'}\n"
    )
    return await load_status(env_file, now=time.time())


def get_statuses(status: Status) -> dict[str, str]:
    return {name: verdict.status for name, verdict in status.verdicts.items()}


@pytest.mark.sqlite
async def test_all_parts_of_a_running_gateway_are_seen_and_what_fails_is_named(folder: Path):
    endpoint = ScriptedEndpoint()
    async with open_harness(folder, endpoint, backup_dir=str(folder / "backups")) as gateway:
        async with gateway.run():
            gateway.ann.send("@@say:hello@@")
            await gateway.wait_for_texts()
            await gateway.api.wait_until(gateway.is_finished)
            status = await load(gateway, folder)
            verdicts = status.verdicts.items()
            failing = {name: verdict.seen for name, verdict in verdicts if verdict.status != "pass"}
            assert failing == {"backup": "there is none yet"}
            assert status.exit_code == 3
            head, _, table, *_ = render_status(status)
            assert str(head).endswith("Look at: backup.")
            assert isinstance(table, TextTable)
            assert ("", "", "Fix: canvasgram backup") in table.rows
            endpoint.refuse_connections(600)
            assert get_statuses(await load(gateway, folder))["model"] == "fail"
        stopped = await load(gateway, folder)
        assert get_statuses(stopped)["gateway"] == "fail"
        assert stopped.exit_code == 1


def build_work(**changes: object) -> CurrentWork:
    """A gateway that has just given a sign of life, with nothing to do."""
    fields = dict.fromkeys(CurrentWork.__dataclass_fields__, ())
    times = {"seen_at": NOW, "running_at": NOW, "began_at": NOW - 3600.0}
    return CurrentWork(**(fields | {"waiting_items": 0, "parked": 0, "failed": 0} | times | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("work", "status", "words"),
    [
        (build_work(), "pass", "runs since"),
        (build_work(seen_at=None, running_at=None), "fail", "never run"),
        (build_work(running_at=None), "fail", "stopped"),
        (build_work(running_at=NOW - SIGN_OF_LIFE_SECONDS - 1), "fail", "not stopped in order"),
    ],
)
def test_a_gateway_is_judged_by_its_last_sign_of_life(work: CurrentWork, status: str, words: str):
    verdict = judge_gateway(work, NOW)
    assert verdict.status == status
    assert words in verdict.seen


def test_a_message_that_waits_for_long_is_a_warning_and_a_parked_turn_is_none():
    long_ago = NOW - MAX_WAITING_SECONDS - 1
    parked = judge_queue(build_work(parked=2), NOW)
    assert (parked.status, parked.seen) == ("pass", "2 wait for a person's answer")
    waiting = build_work(waiting_items=1, waiting=(WaitingLane("7", 1, NOW - 1),))
    assert judge_queue(waiting, NOW).status == "pass"
    late = build_work(waiting_items=1, waiting=(WaitingLane("7", 1, long_ago),))
    assert judge_queue(late, NOW).status == "warn"


def test_a_backup_of_two_days_ago_is_a_failure():
    assert judge_backup(None, NOW).status == "warn"
    assert judge_backup(NOW - DAY_SECONDS, NOW).status == "pass"
    assert judge_backup(NOW - MAX_BACKUP_DAYS * DAY_SECONDS - 1, NOW).status == "fail"
