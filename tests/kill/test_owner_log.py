"""The log of a real gateway: start, the endpoint coming and going, notices, the stop."""

import json
import re

import pytest

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment


def parse_records(environment: KillEnvironment) -> list[dict[str, object]]:
    return [json.loads(line) for line in environment.gateway.output.splitlines()]


async def test_start_readiness_and_stop_are_a_line_each_and_nothing_else_is_logged(surround: OpenEnvironment):
    environment = await surround(plain=True)
    gateway = environment.gateway
    await gateway.wait_for_output("endpoint.answers")
    environment.ann.send("/remind in 5 minutes call Anna")  # wakes the scheduler
    await environment.until(environment.texts)
    assert (await gateway.terminate())[0] == 0
    lines = gateway.output.splitlines()
    assert sorted(line.split()[3] for line in lines) == [
        "app.ready",
        "app.started",
        "app.stopped",
        "endpoint.answers",
    ]
    assert lines[-1].split()[3] == "app.stopped"
    [started] = [line for line in lines if "app.started" in line]
    assert re.search(r"Canvasgram \d+\.\d", started)
    assert "@canvas" in started
    assert f"database {environment.folder / 'gateway.db'}; people: 1, admins among them: 1" in started
    [answers] = [line for line in lines if "endpoint.answers" in line]
    assert f"the model endpoint at {environment.settings['model_url']} answers: " in answers
    assert "vLLM 0." in answers
    assert "4 seats" in answers
    assert environment.api.token not in gateway.output


async def test_an_endpoint_that_is_away_and_what_admins_are_told_are_logged_as_json(
    surround: OpenEnvironment,
):
    environment = await surround(start=False, log_format="json")
    environment.endpoint.refuse_connections(1000)
    await environment.gateway.start()
    await environment.gateway.wait_for_output("endpoint.away")
    environment.ann.send("@@say:here I am@@ a secret word")
    await environment.gateway.wait_for_output("notices.sent")
    environment.endpoint.heal()
    await environment.gateway.wait_for_output("endpoint.answers")
    await environment.until(lambda: "here I am" in environment.texts())
    await environment.gateway.wait_for_output("notices.sent", 2)  # away, and back
    assert (await environment.gateway.terminate())[0] == 0
    records = parse_records(environment)
    actions = [record["action"] for record in records]
    assert actions[:2] == ["app.started", "app.ready"]
    assert actions[-1] == "app.stopped"
    assert actions.count("notices.sent") == 2
    away = [record for record in records if record["action"] == "endpoint.away"]
    assert {record["level"] for record in away} == {"WARNING"}
    assert "secret word" not in environment.gateway.output


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_without_an_admin_the_log_names_who_became_one(surround: OpenEnvironment, log_format: str):
    settings = {"admin_ids": "", "access": "pairing", "log_format": log_format}
    environment = await surround(start=False, **settings)
    await environment.gateway.start()
    await environment.gateway.wait_for_output("?start=")
    code = re.findall(r"start=([\w-]+)", environment.gateway.output)[0]
    await environment.gateway.restart()  # the link is still good, and no second one is shown
    await environment.gateway.wait_for_output("The link shown earlier works for")
    assert environment.gateway.output.count("?start=") == 1
    environment.ann.send(f"/start {code}")
    await environment.gateway.wait_for_output("people.joined")
    assert "person 7 came in by a link, as admin" in environment.gateway.output
    assert log_format == "text" or parse_records(environment)
