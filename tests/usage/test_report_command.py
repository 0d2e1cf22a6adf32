"""The answers of the report commands: in every format, or one sentence that says why not."""

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from bot.db.engine import Database
from bot.db.people import people
from bot.db.tools import audit
from bot.db.usage import counter_readings
from bot.db.usage.counter_readings import CounterReading
from bot.errors import NothingFound, QuestionRefused, StoreUnavailable
from bot.usage import queries
from bot.usage.reconcile import FIRST_READING
from bot.usage.report import INTERVAL_COLUMNS
from bot.usage.report_command import ReportOptions, render_audit, render_report, render_turn
from tests.support.terminal_text import lay_out
from tests.support.usage_rows import NOON, UsageRows

NOW = NOON + 100.0


@pytest.fixture
async def filled(database: Database, database_url: str) -> str:
    """A database with two turns of two people and a call of none."""
    ledger = UsageRows(database)
    for person, canvases in ((5, 1), (6, 3)):
        turn = await ledger.add_turn(person=person, lane=str(person), thinking=person == 6)
        await ledger.add_call(turn, completion_tokens=256 * canvases)
        await ledger.add_tool_call(turn)
        await ledger.add_account(turn, first_canvas=1.0 * canvases, own=0.5)
    await ledger.add_call(None, purpose="warmup", cached_tokens=None)
    return database_url


async def render(url: str, **options: Any) -> str:
    answer = await render_report(url, ReportOptions(**options), now=NOW)
    return lay_out(answer)


async def test_a_table_of_everything(filled: str):
    text = await render(filled)
    assert "Tokens" in text
    assert "Unknown, for the server did not tell: cached of 1 of 3 calls; sums leave them out." in text
    assert "Percentiles are exact" in text


async def test_a_report_begins_with_who_used_it_how_fast_it_was_and_what_failed(
    filled: str, database: Database
):
    async with database.transaction() as tx:
        await people.put(tx, 6, "Bob\x1b[31m", "member", let_in_by=5, now=NOON)
    used, speed, failed, *_ = (await render(filled)).splitlines()
    assert used == (
        r"Used: 2 answers, about 6 canvases: Bob\x1b[31m (6) 50 %, the gateway itself 33 %, 5 17 %."
    )
    assert speed == "Speed: half of the answers took at most 1.500 s, 95 of 100 at most 3.500 s."
    assert failed == "Failed: nothing."
    await UsageRows(database).add_turn(item=90, ending="seconds")
    await UsageRows(database).add_turn(item=91, ending="stopped")
    used, _, failed, *_ = (await render(filled)).splitlines()
    assert (used.partition(",")[0], failed) == ("Used: 2 answers", "Failed: 1 of 4 turns.")
    assert "Bob" not in await render(filled, by="user", form="json")


async def test_times_and_days_are_those_of_the_zone(filled: str):
    zone = "Pacific/Kiritimati"  # noon in UTC is two in the night of the next day
    days = await render(filled, by="day", zone=zone)
    assert "2024-10-05" in days
    assert "2024-10-04" not in days
    assert f"now ({zone})" in days
    turns = await render(filled, what="turns", zone=zone, since="today")
    assert f"when ({zone})" in turns
    assert "2024-10-05 02:00:00" in turns
    assert "2024-10-04 12:00:00" in await render(filled, what="turns", zone=zone, form="json")


async def test_people_and_private_chats_are_named_also_after_they_were_removed(
    filled: str, database: Database
):
    async with database.transaction() as tx:
        await people.put(tx, 6, "Bob", "member", let_in_by=5, now=NOON)
        await audit.record(
            tx, audit.Actor(6, "telegram"), "let in", "person 7", change=(None, None), now=NOON
        )
        await people.remove(tx, 6, now=NOON)
    for by in ("user", "chat"):
        assert re.search(r"^Bob \(6\) ", await render(filled, by=by), re.MULTILINE)
    for list_of in ("turns", "calls"):
        assert "Bob (6)" in await render(filled, what=list_of)
    assert "Bob (6)" in lay_out(await render_turn(filled, "2", with_texts=False, as_json=False, now=NOW))
    assert "Bob (6)" in lay_out(await render_audit(filled, ReportOptions(), now=NOW))


async def test_csv_of_people(filled: str):
    rows = list(csv.DictReader(io.StringIO(await render(filled, by="user", form="csv"))))
    assert [(row["user"], row["canvases_estimated"], row["whole_p50_seconds"]) for row in rows] == [
        ("6", "3", "3.5"),
        ("(no turn)", "2", ""),
        ("5", "1", "1.5"),
    ]


@pytest.mark.parametrize("by", [None, "user", "day"])
async def test_the_intervals_add_up_to_the_whole_in_json_and_csv(
    filled: str, database: Database, by: str | None
):
    await UsageRows(database).add_account(
        await UsageRows(database).add_turn(item=99), seat_wait=0.25, own=1.0
    )
    report = json.loads(await render(filled, by=by, form="json"))
    csv_rows = csv.DictReader(io.StringIO(await render(filled, by=by, form="csv")))
    records = [report["all"], *report["groups"], *(row for row in csv_rows if row["turns"])]
    for record in records:
        if "turns" in record:
            whole, *intervals = (float(record[f"{interval}_seconds"]) for interval in INTERVAL_COLUMNS)
            assert sum(intervals) == pytest.approx(whole)
    assert report["all"]["seat_wait_seconds"] == 0.25
    assert report["all"]["call_seat_wait_seconds"] == 3.0


async def test_json_of_one_person(filled: str):
    records = json.loads(await render(filled, user=6, form="json", since="2024-10-04", until="2024-10-04"))
    assert (
        records["all"]["calls"],
        records["all"]["thinking_turns"],
        records["all"]["thinking_turns_seconds"],
    ) == (
        1,
        1,
        3.5,
    )
    assert (records["user"], records["until"], records["server"]) == (6, "2024-10-05 00:00:00", None)


async def test_turns_that_thought_stand_beside_those_that_did_not(filled: str, database: Database):
    ledger = UsageRows(database)
    for item, ending in enumerate(("stopped", "away", "steps", "limit"), start=90):
        state = "replaced" if ending == "stopped" else "ended"
        await ledger.add_turn(item=item, ending=ending, state=state)
    open_turn = await ledger.add_turn(item=99, ending=None, state="running", ended_at=None)
    await ledger.add_call(open_turn, completion_tokens=None, ended_at=None, reasoning_tokens=None)
    await ledger.add_call(open_turn, purpose="decision", completion_tokens=2, ended_at=NOON + 1.5)
    _, *tables = (await render(filled, by="thinking")).split("\n\n")
    costs, endings = ([line.split() for line in table.splitlines()[2:]] for table in tables[:2])
    assert costs == [
        ["on", "1", "14.3", "%", "3", "75.0", "%", "3.0", "0", "3.500", "3.500", "0", "0.000"],
        [
            "off",
            "6",
            "85.7",
            "%",
            "≥",
            "1",
            "25.0",
            "%",
            "≥",
            "0.2",
            "≥",
            "0",
            "≥",
            "33.500",
            "6.700",
            "1",
            "0.500",
        ],
    ]
    assert endings == [
        ["on", "1", "1", "0", "0", "0", "0", "0", "0"],
        ["off", "6", "1", "1", "1", "1", "1", "1", "1"],
    ]
    report = json.loads(await render(filled, by="thinking", form="json"))
    records = {record["thinking"]: record for record in report["groups"]}
    assert set(records) == {"on", "off", "(no turn)"}
    assert [records[key]["turns_answered"] for key in ("on", "off")] == [1, 1]
    assert records["off"]["decision_reads"] == 1
    assert report["notes"][0].startswith("A turn counts as it began.")
    [of_person] = json.loads(await render(filled, by="thinking", form="json", user=6))["groups"]
    assert (of_person["thinking"], of_person["turns"], of_person["thought_tokens"]) == ("on", 1, 0)


async def test_a_table_of_tools(filled: str):
    lines = [line.split() for line in (await render(filled, by="tool")).splitlines()]
    assert ["clock", "2", "0", "0", "1.000", "0.500", "0.500", "0.500"] in lines


async def test_the_call_with_the_most_output(filled: str):
    records = json.loads(await render(filled, what="calls", sort="output", top=1, form="json"))
    assert [(record["user"], record["output"], record["tokens_per_second"]) for record in records] == [
        (6, 768, 256.0)
    ]
    assert "Model calls by tokens" in await render(filled, what="calls")


async def test_turns_that_took_longest(filled: str):
    rows = list(csv.DictReader(io.StringIO(await render(filled, what="turns", sort="seconds", form="csv"))))
    assert [(row["turn"], row["seconds"]) for row in rows] == [("2", "3.5"), ("1", "1.5")]


async def test_readings_of_the_counters_with_their_causes(database: Database, database_url: str):
    first = CounterReading("http://m", NOON, None, {"http://m": {"prompt_tokens": 7}}, 0, FIRST_READING)
    later = replace(
        first,
        read_at=NOON + 60.0,
        since=NOON,
        why="1 call of ours broke off",
        prompt_seen=1500,
        prompt_own=1000,
        gap=500,
    )
    async with database.transaction() as tx:
        for reading in (first, later):
            await counter_readings.store(tx, reading)
    text = await render(database_url, what="readings")
    assert "1,500 / 1,000" in text
    assert text.index("1 call of ours broke off") < text.index(FIRST_READING)
    [record] = json.loads(await render(database_url, what="readings", top=1, form="json"))
    assert (record["prompt_seen"], record["prompt_own"], record["gap"], record["why"]) == (
        *(1500, 1000, 500),
        "1 call of ours broke off",
    )
    assert record["cached_seen"] is None
    with pytest.raises(NothingFound):
        await render(database_url, what="readings", until="2001-01-01")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"form": "xls"}, "--format must be one of table, csv, json."),
        ({"by": "week"}, "--by must be one of"),
        ({"what": "tools"}, "--list must be one of turns, calls, readings."),
        ({"what": "calls", "sort": "name"}, "--sort must be one of"),
        ({"what": "calls", "by": "day"}, "does not go with --by"),
        ({"top": 5}, "--top goes with --list"),
        ({"sort": "input", "by": "day"}, "--sort with --list turns"),
        ({"what": "readings", "sort": "input"}, "--list readings shows the newest"),
        ({"what": "readings", "user": 5}, "--list readings shows the newest"),
        ({"what": "readings", "model": "m"}, "--list readings shows the newest"),
        ({"since": "soon"}, "--since must be a date"),
    ],
)
async def test_what_cannot_be_meant_is_refused(filled: str, options: dict[str, Any], reason: str):
    with pytest.raises(QuestionRefused, match=reason):
        await render(filled, **options)


async def test_no_data_is_an_error_and_no_table_of_zeros(database_url: str, database: Database):
    nothing: tuple[dict[str, Any], ...] = ({}, {"what": "turns"}, {"user": 9}, {"user": 9, "what": "calls"})
    for options in nothing[:2]:
        with pytest.raises(NothingFound, match="nothing in the ledger yet"):
            await render(database_url, **options)
    await UsageRows(database).add_call(await UsageRows(database).add_turn())
    for options in nothing[2:]:
        with pytest.raises(NothingFound, match="nothing in the ledger for this"):
            await render(database_url, **options)


async def test_no_database_is_said(tmp_path: object):
    with pytest.raises(StoreUnavailable, match="There is no database"):
        await render(f"sqlite+aiosqlite:///{tmp_path}/none.db")


async def test_a_turn_step_by_step(filled: str):
    text = lay_out(await render_turn(filled, "#2", with_texts=False, as_json=False, now=NOW))
    assert text.startswith("Turn 2 in chat 6, of user 6: answered")
    assert "noon" not in text
    assert "noon" in lay_out(await render_turn(filled, "2", with_texts=True, as_json=False, now=NOW))
    assert (
        json.loads(str(await render_turn(filled, "2", with_texts=False, as_json=True, now=NOW)))["tools"][0][
            "result"
        ]
        is None
    )


async def test_a_turn_that_is_not_there(filled: str):
    with pytest.raises(NothingFound, match="There is no turn 99"):
        await render_turn(filled, "99", with_texts=False, as_json=False, now=NOW)
    with pytest.raises(QuestionRefused, match="no id of a turn"):
        await render_turn(filled, "me", with_texts=False, as_json=False, now=NOW)


async def test_of_very_many_turns_percentiles_are_those_of_a_sample(
    filled: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queries, "MAX_EXACT_TURNS", 1)
    for filters in ({}, {"model": "m"}):
        assert "Percentiles are those of a random sample" in await render(filled, **filters)
        [record] = csv.DictReader(io.StringIO(await render(filled, form="csv", **filters)))
        assert record["percentiles"] == "sample"


async def test_a_report_can_be_of_some_turns_and_by_hour_or_by_person_and_model(
    filled: str, database: Database
):
    async def read(**options: Any) -> Any:
        return json.loads(await render(filled, form="json", **options))

    ledger = UsageRows(database)
    turn = await ledger.add_turn(item=50, endpoint="fallback", thinking=True, received_at=NOON + 3600)
    await ledger.add_call(turn, model="n", purpose="decision")
    await ledger.add_call(turn, model="n", purpose="task")
    await ledger.add_tool_call(turn, "fetch_page")
    await ledger.add_tool_call(turn, "clock")
    for options, turns, calls in (
        ({"endpoint": "fallback"}, 1, 2),
        ({"endpoint": "main"}, 2, 2),
        ({"tool": "fetch_page"}, 1, 2),
        ({"tool": "clock", "thinking": "on"}, 2, 3),
        ({"thinking": "off"}, 1, 1),
        ({"purpose": "task"}, 1, 1),
        ({"purpose": "turn", "model": "m"}, 2, 2),
    ):
        report = await read(**options)
        assert (report["all"]["turns"], report["all"]["calls"]) == (turns, calls), options
    assert (await read(tool="fetch_page"))["all"]["tool_calls"] == 1
    assert (await read(purpose="warmup"))["all"]["calls"] == 1
    hours = (await read(by="hour", zone="Asia/Kolkata"))["groups"]
    assert [(row["hour"], row["turns"], row["calls"]) for row in hours] == [
        ("2024-10-04 17:00", 2, 3),
        ("2024-10-04 18:00", 1, 2),
    ]
    pairs = {row["user-model"]: row["calls"] for row in (await read(by="user-model"))["groups"]}
    assert pairs == {"5 m": 1, "6 m": 1, "5 n": 2, "(no turn)": 1}
    async with database.transaction() as tx:
        await people.put(tx, 6, "Bob", "member", now=NOON)
    table = await render(filled, by="user-model", thinking="on")
    assert "Bob (6) m" in table
    assert ", thinking on." in table
    for wrong in ({"endpoint": "third"}, {"purpose": "fun"}, {"thinking": "yes"}):
        with pytest.raises(QuestionRefused, match="must be one of"):
            await read(**wrong)
    for name in ("turns", "calls"):
        assert len(json.loads(await render(filled, what=name, tool="fetch_page", form="json"))) in {1, 2}
