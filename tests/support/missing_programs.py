"""What a test needs of the system, such as a browser: without it the test is skipped, and in CI it fails."""

import os
from typing import NoReturn

import pytest


def skip_for_missing(reason: str) -> NoReturn:
    """Skip the running test with this reason; in CI, where everything has to be there, fail it."""
    if os.environ.get("CI"):  # noqa: TID251  # the tests' own switch
        pytest.fail(reason)
    pytest.skip(reason)
