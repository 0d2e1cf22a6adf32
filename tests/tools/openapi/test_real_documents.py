"""Documents of real services (tests/fixtures/openapi): every operation of them can be used."""

from pathlib import Path
from typing import Any

import pytest

from tools.openapi import worker

FOLDER = Path(__file__).parents[2] / "fixtures" / "openapi"
DOCUMENTS = sorted(FOLDER.glob("*.json"))
URL = "https://documents.test/openapi.json"


def read_routes(path: Path) -> dict[str, Any]:
    """The routes to all operations of a document, and why others cannot be used."""
    body = path.read_bytes()
    operations = [summary["operation"] for summary in worker.outline_document(body, URL)["operations"]]
    return worker.build_picked_routes(body, URL, operations, "")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_operation_of_a_real_document_can_be_used(path):
    result = read_routes(path)
    assert len(result["routes"]) >= 5
    assert result["left_out"] == {}
