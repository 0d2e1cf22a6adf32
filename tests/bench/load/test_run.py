"""The whole bench with real processes, in small: figures come from measurements.

No figure is judged here except the faults, which are right or wrong on any machine.
"""

import asyncio
import json
from pathlib import Path

import pytest

from bot.admin.page_request import Fragment, PageRequest, Screen
from bot.bench.harness.gateway_process import BenchFailed
from bot.errors import QuestionRefused
from tests.bench import output
from tests.bench.harness import bots
from tests.bench.harness.bots import BotEnvironment
from tests.bench.harness.figures import Figure, FigureRow, limit_to
from tests.bench.harness.page_viewer import list_paths
from tests.bench.harness.stage import open_stage
from tests.bench.harness.workload import ProseBrain
from tests.bench.load import busy_minute, long_chat
from tests.bench.load import run as run_module
from tests.bench.load.busy_minute import TimedReply
from tests.bench.load.run import LoadOptions, run_load
from tests.support.endpoint.server import ScriptedEndpoint


async def measure_section(tmp_path: Path, section: str) -> dict[str, FigureRow]:
    """The rows of one section, measured as briefly as possible."""
    lines: list[str] = []
    options = LoadOptions(
        messages=5,
        starts=1,
        trials=1,
        idle_seconds=0.5,
        throughput_seconds=0.5,
        minute_seconds=2,
        ledger_calls=400,
        screen_openings=1,
        turns=3,
        fault_wait_seconds=1.0,
        only_sections=(section,),
        folder=tmp_path,
        quick=True,
    )
    report = await run_load(options, lines.append, asyncio.Event())
    assert lines == [f"measuring: {section}"]
    assert {"machine", "versions", "database", "load before", "load after", "tokens"} <= dict(
        report.conditions
    ).keys()
    assert not list(tmp_path.iterdir())
    return {figure.row.key: figure.row for figure in report.figures}


def positive_values(row: FigureRow) -> list[float]:
    """The values of all three bots, each a number above zero."""
    values = [row.values[name] for name in ("bare", "memory", "ours")]
    assert all(isinstance(value, float | int) and value > 0 for value in values), row
    return [float(value or 0) for value in values]


@pytest.mark.usefixtures("forked_bots")
async def test_own_time_and_processor_time_of_all_three(tmp_path: Path):
    rows = await measure_section(tmp_path, "own")
    assert list(rows) == ["own_p50", "own_p95", "far_p50", "cpu", "after"]
    for key in ("own_p50", "own_p95", "far_p50", "after"):
        assert len(positive_values(rows[key])) == 3
    _, memory, _ = positive_values(rows["far_p50"])
    assert memory > 80, "it waits for Telegram to have taken its typing"


@pytest.mark.usefixtures("forked_bots")
async def test_starts_and_idle_memory_of_all_three(tmp_path: Path):
    rows = await measure_section(tmp_path, "start")
    assert list(rows) == ["start", "start_cpu", "start_answer", "first_start_answer"]
    to_answer = positive_values(rows["start_answer"])
    assert all(poll < answer for poll, answer in zip(positive_values(rows["start"]), to_answer, strict=True))
    assert positive_values((await measure_section(tmp_path, "idle"))["idle"])


@pytest.mark.usefixtures("forked_bots")
async def test_one_process_answers_many_chats_without_limits_on_calls(tmp_path: Path):
    rows = await measure_section(tmp_path, "throughput")
    assert min(positive_values(rows["throughput"])) > 0


@pytest.mark.usefixtures("forked_bots")
async def test_concurrent_chats_reach_the_model_by_seats(tmp_path: Path):
    rows = await measure_section(tmp_path, "crowd")
    _, _, ours = positive_values(rows["crowd_calls"])
    assert ours <= 4
    assert min(positive_values(rows["crowd_wall"])) >= 7 * 0.16


@pytest.mark.usefixtures("forked_bots")
async def test_searches_are_timed_in_each_language_and_replies_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(long_chat, "SEARCHES", 2)
    monkeypatch.setattr(long_chat, "_REFERENCE_ROUNDS", 1000)
    size = long_chat.ChatSize(messages=40, files=2, text_bytes=4_000)
    rows = {row.key: row for row in await long_chat.measure_searches(tmp_path, 5, size)}
    searches = [
        f"search_{name}_{language}" for language in ("en", "ru", "zh") for name in ("look_back", "find")
    ]
    assert list(rows) == ["search_pace", *searches, "search_others"]
    assert rows["search_find_ru"].limit == limit_to(0.2)
    assert all((row.values["ours"] or 0) > 0 for row in rows.values())


@pytest.mark.usefixtures("forked_bots")
async def test_the_busiest_minute_is_compared_with_a_quiet_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(busy_minute, "CHATS", 3)
    monkeypatch.setattr(busy_minute, "PAUSE_SECONDS", 0.1)  # else nobody might write in so short a minute
    monkeypatch.setattr(busy_minute, "CANVAS_SECONDS", 0.1)
    rows = await measure_section(tmp_path, "minute")
    for key in ("minute_replies", "minute_reports", "minute_rankings"):
        assert (rows[key].values["ours"] or 0) > 0
    assert rows["minute_screens"].values["ours"] is not None
    assert rows["minute_factor"].limit == limit_to(2)
    assert (rows["minute_factor"].values["ours"] or 0) > 0


@pytest.mark.usefixtures("forked_bots")
async def test_replies_are_timed_with_the_page_open_and_closed(tmp_path: Path):
    rows = await measure_section(tmp_path, "page")
    names = ["page_closed", "page_open", "page_open_p95", "page_slower", "page_slower_mean", "page_cpu"]
    assert list(rows) == names
    assert rows["page_slower"].limit == limit_to(1.03)
    assert all((rows[name].values["ours"] or 0) > 0 for name in names[:-1])


@pytest.mark.usefixtures("forked_bots")
async def test_every_screen_is_timed_over_every_period(tmp_path: Path):
    rows = await measure_section(tmp_path, "screens")
    screens = [key for key in rows if key.startswith("screen /admin/")]
    assert len(screens) == len(rows) / 2
    assert {key.partition("period=")[2] for key in screens} == {"24h", "7d", "30d", "90d"}
    assert "screen /admin/people?period=30d" in screens
    assert "screen /admin/usage/table?by=chat&period=7d" in screens
    assert rows["screen /admin/usage?period=7d"].limit == limit_to(0.5)
    assert rows["screen /admin/usage?period=90d"].limit == limit_to(2.5)  # of a million calls
    assert all((rows[key].values["ours"] or 0) > 0 for key in screens)


def test_every_screen_is_viewed_over_the_longest_period():
    async def view(_: PageRequest) -> Fragment:
        return Fragment(None)

    now = Screen("now", "Now", 1, {"": view, "/live": view})
    turn = Screen("turn", "", 4, {"/{turn}": view, "/{turn}/{call}": view})
    assert list_paths([now, turn]) == ["/admin/now?period=90d", "/admin/turn/1?period=90d"]


def test_a_reply_is_compared_with_quiet_ones_of_its_kind():
    quiet = [TimedReply("short", 0.010), TimedReply("with a tool", 0.030), TimedReply("long", 0.020)]
    busy = [TimedReply("short", 0.018), TimedReply("with a tool", 0.045)]
    rows = {row.key: row.values["ours"] for row in busy_minute.build_rows(quiet, busy, 3, 4)}
    assert rows["minute_factor"] == pytest.approx(1.8)
    assert (rows["minute_replies"], rows["minute_reports"]) == (2, 3)


@pytest.mark.usefixtures("forked_bots")
async def test_first_words_of_a_long_answer(tmp_path: Path):
    rows = await measure_section(tmp_path, "words")
    assert min(positive_values(rows["first_words_after_start"])) >= 1.6
    bare, memory, ours = positive_values(rows["first_words"])
    assert bare >= 3 * 1.6, "it shows nothing before the end"
    assert min(memory, ours) >= 1.6


@pytest.mark.usefixtures("forked_bots")
async def test_prompts_are_counted(tmp_path: Path):
    rows = await measure_section(tmp_path, "tokens")
    assert Figure((rows["first_prompt"],)).verdict == "ok"
    assert rows["first_tools"].values["memory"] == 0
    assert rows["reasoning"].values["ours"] == 0
    assert positive_values(rows["prefill"])[2] > 0
    largest = rows["largest"].values
    assert (largest["bare"] or 0) < 80 < (largest["memory"] or 0), "the bare loop keeps no history"
    assert rows["reasoning"].label == "3 turns: reasoning share of output"


@pytest.mark.usefixtures("forked_bots")
async def test_faults_end_well_for_ours_and_not_for_the_memory_loop(tmp_path: Path):
    rows = await measure_section(tmp_path, "faults")
    assert [Figure((row,)).verdict for row in rows.values()] == ["ok"] * 4
    # How far it has come with its second copy, a second after our answer, is a matter of pace.
    assert {key: rows[key].values["memory"] for key in ("killed", "unknown")} == {
        "killed": False,
        "unknown": False,
    }


async def test_an_unknown_section_is_named():
    with pytest.raises(QuestionRefused, match="There is no section speed; there are own, start"):
        await run_load(LoadOptions(only_sections=("speed",)), print, asyncio.Event())


async def test_what_is_measured_is_kept_when_the_run_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = asyncio.Event()

    async def quick(options: LoadOptions, folder: Path) -> list[FigureRow]:
        return [FigureRow("own", "own time", "ms", {"ours": 1.0})]

    async def endless(options: LoadOptions, folder: Path) -> list[FigureRow]:
        stop.set()
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(run_module, "SECTIONS", {"own": quick, "start": endless, "crowd": quick})
    options = LoadOptions(only_sections=("own", "start", "crowd"), folder=tmp_path)
    report = await run_load(options, print, stop)
    assert ([figure.row.key for figure in report.figures], report.is_complete) == (["own"], False)
    assert str(next(output.format_lines(report))).startswith("NOT WHOLE: It was stopped by hand.")
    assert json.loads(output.format_json(report))["whole"] is False
    assert list(tmp_path.iterdir()) == []


async def test_a_section_that_fails_loses_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def quick(options: LoadOptions, folder: Path) -> list[FigureRow]:
        return [FigureRow("own", "own time", "ms", {"ours": 1.0})]

    async def fail(options: LoadOptions, folder: Path) -> list[FigureRow]:
        async with asyncio.TaskGroup():
            raise BenchFailed("ours did not answer question 7")

    monkeypatch.setattr(run_module, "SECTIONS", {"own": quick, "start": fail, "crowd": quick})
    options = LoadOptions(quick=True, only_sections=("own", "start", "crowd"), folder=tmp_path)
    report = await run_load(options, print, asyncio.Event())
    assert report.failures == ("start: ours did not answer question 7",)
    assert len(report.figures[0].runs) == 2
    assert next(output.format_lines(report)) == "FAILED: start: ours did not answer question 7"


async def test_what_depends_on_the_machine_is_measured_five_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [3.0, 1.0, 2.0, 5.0, 4.0]

    async def measure(options: LoadOptions, folder: Path) -> list[FigureRow]:
        return [FigureRow("own", "", "", {"ours": values.pop()})]

    monkeypatch.setattr(run_module, "REPEATED_SECTIONS", {"own": measure})
    monkeypatch.setattr(run_module, "SECTIONS", {"own": measure, "ledger": measure})
    lines: list[str] = []
    options = LoadOptions(only_sections=("own",), folder=tmp_path)
    report = await run_load(options, lines.append, asyncio.Event())
    assert lines == [f"measuring: own, run {run} of 5" for run in range(1, 6)]
    assert LoadOptions(quick=True).sections == ("own",)
    assert LoadOptions().sections == ("own", "ledger")
    assert dict(report.conditions)["runs"].startswith("5, one after the other")
    assert not values


async def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuestionRefused, match="nowhere is no folder"):
        await run_load(LoadOptions(folder=tmp_path / "nowhere"), print, asyncio.Event())
    (tmp_path / "file").touch(0o600)
    with pytest.raises(QuestionRefused, match="file is no folder"):
        await run_load(LoadOptions(folder=tmp_path / "file"), print, asyncio.Event())


async def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BenchFailed, match=r"needs aiohttp: .*canvasgram\[bench\]"):
        await run_load(LoadOptions(), print, asyncio.Event())


async def test_a_bot_that_ends_by_itself_is_quoted(tmp_path: Path):
    running = await bots.start_bot(
        "ours", BotEnvironment("no token", "http://127.0.0.1:9", "http://127.0.0.1:9", tmp_path)
    )
    with pytest.raises(
        BenchFailed, match="ours ended by itself with code 2: TELEGRAM_TOKEN must be the token"
    ):
        await running.watch()
    assert running.read_cpu_seconds() is None
    counts = (
        running.read_resident_mib(),
        running.count_descriptors(),
        running.count_threads(),
        running.count_wakeups(),
    )
    assert counts == (None, None, None, None)
    await running.kill()


@pytest.mark.usefixtures("forked_bots")
async def test_a_bot_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with open_stage("bare", tmp_path, ScriptedEndpoint(brain=ProseBrain())) as stage:
        with pytest.raises(BenchFailed, match="bare loop was not started"):
            _ = stage.process
        await stage.start()
        stage.endpoint.hold()
        monkeypatch.setattr("tests.bench.harness.stage.PATIENCE_SECONDS", 0.2)
        with pytest.raises(BenchFailed, match=r"bare loop did not answer question 1 within 0\.2 s"):
            await stage.ask(1, 0)
        with pytest.raises(BenchFailed, match="did not answer question 1"):
            stage.read_times(-1, 1, 0)


async def test_nothing_of_this_machines_settings_reaches_a_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TELEGRAM_TOKEN", "1:of-somebody")
    monkeypatch.setenv("MODEL_SEATS", "wrong")
    async with open_stage("ours", tmp_path, ScriptedEndpoint(brain=ProseBrain())) as stage:
        await stage.start()
        assert (await stage.ask(1, 0)).own_seconds > 0
