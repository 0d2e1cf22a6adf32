"""Of what a program writes on stderr the telling lines are quoted, and what it repeats is logged once."""

import logging

import pytest

from tools.mcp.stderr_log import MAX_RUN_LINES, StderrLog

PYDANTIC = """
Traceback (most recent call last):
  File "/srv/server.py", line 12, in <module>
    settings = Settings()
pydantic_core.ValidationError: 1 validation error for Settings
jira_url
  Field required [type=missing, input_value={}, input_type=dict]
"""


NPM = """
npm error code E404
npm error 404 Not Found - GET https://registry.example/docs - Not found
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/docs/_logs/debug-0.log
"""


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def write(stderr_log: StderrLog, text: str) -> str:
    stderr_log.begin_run()
    for line in text.splitlines():
        stderr_log.add(line)
    return stderr_log.quote()


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", ""),
        ("starting\nready\n\n", ", and wrote: ready"),
        (
            PYDANTIC,
            ", and wrote: pydantic_core.ValidationError: 1 validation error for Settings · "
            "Field required [type=missing, input_value={}, input_type=dict]",
        ),
        (
            "Error: JIRA_URL is not set\n    at main (index.js:3)\n\nNode.js v20",
            ", and wrote: Error: JIRA_URL is not set",
        ),
        (NPM, ", and wrote: npm error 404 Not Found - GET https://registry.example/docs - Not found"),
        ("error 1\nerror 2\nerror 3\nerror 4", ", and wrote: error 2 · error 3 · error 4"),
        ("error " + "x" * 500, ", and wrote: error " + "x" * 194),
    ],
)
def test_the_lines_that_say_most_are_quoted(text: str, quoted: str):
    assert write(StderrLog("odd"), text) == quoted


def test_what_the_last_run_wrote_is_not_logged_again(logged: pytest.LogCaptureFixture):
    stderr_log = StderrLog("odd")
    write(stderr_log, "12:01 starting\n12:02 error")
    write(stderr_log, "12:05 starting\n12:06 other")
    assert logged.messages == ["12:01 starting", "12:02 error", "12:06 other"]
    assert stderr_log.quote() == ", and wrote: 12:06 other"


def test_a_run_is_logged_to_a_bound(logged: pytest.LogCaptureFixture):
    write(StderrLog("odd"), "\n".join(chr(ord("a") + number % 26) * number for number in range(300)))
    assert len(logged.messages) == MAX_RUN_LINES
