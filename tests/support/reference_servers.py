"""The reference MCP servers written for Node, as programs; `.ci/run` installs them.

Elsewhere: `npm ci --prefix tests/fixtures/mcp_servers`. Where they are missing the tests say so and are
skipped; in CI they fail.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.missing_programs import skip_for_missing
from tools.mcp.location import ServerProgram

FOLDER = Path(__file__).parents[1] / "fixtures" / "mcp_servers"
MISSING = "the reference servers are not installed: npm ci --prefix tests/fixtures/mcp_servers"


def find_reference_server(
    name: str, *arguments: str, home: Path, environment: Mapping[str, str] | None = None
) -> ServerProgram:
    """The program of this server, such as `memory`; skips the test where it is not installed."""
    node = shutil.which("node")
    script = FOLDER / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    if node is None or not script.exists():
        skip_for_missing(MISSING)
    return ServerProgram((node, str(script), *arguments), home, environment or {})
