"""README's two commands, the demo and the tests, in a copy without an environment, as a newcomer has it."""

import re

import pytest

from tests.support.newcomer import find_command, open_clone, run

ENVIRONMENT_TESTS = "postgresql and test_engine.py"  # in the folder and the module of these names


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_commands_work_in_a_clone() -> None:
    with open_clone() as clone:
        demo = run(f'{find_command("canvasgram demo")} --say "Hello"', clone)
        assert "Hello" in demo.partition("s: ")[0]

        tests = run(f"{find_command('pytest -n .*')} -n 0 -k '{ENVIRONMENT_TESTS}'", clone)
        assert re.search(r"^collected \d{4,} items / \d{4,} deselected / \d+ selected$", tests, re.MULTILINE)
        assert re.search(r"^=+ \d+ passed, \d{4,} deselected in", tests, re.MULTILINE)
