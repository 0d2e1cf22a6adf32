"""What a real SearXNG answered: its JSON for 20 hits of a local engine, with the settings of compose.yaml.

`python -m pytest -s` prints what the model would read of it, and what it reads.
"""

from pathlib import Path

from starlette.responses import Response

from bot.http_server import serve
from bot.sim.search_engine import SimulatedSearchEngine
from bot.sim.vllm.server import count_tokens
from tools.base import DEFAULT_RESULT_CHARS, run_tool
from tools.search import tool as search_tool
from tools.search.hits import PARTIAL, parse_hits
from tools.search.searxng import SearxngEngine
from tools.search.tool import make_search_tool

RECORDED = Path(__file__).parents[2] / "fixtures" / "search" / "searxng.json"


async def test_what_searxng_answers_is_read_in_few_tokens(context, monkeypatch):
    monkeypatch.setattr(search_tool, "SEARCH_SECONDS", 300.0)
    recorded = RECORDED.read_text(encoding="utf-8")
    async with serve(SimulatedSearchEngine(response=Response(recorded)).app) as url:
        result = (await run_tool(make_search_tool(SearxngEngine(url)), {"question": "python"}, context)).text
    raw_tokens = count_tokens(recorded[:DEFAULT_RESULT_CHARS])
    tokens = count_tokens(result)
    print(f"{len(recorded)} characters of JSON: {raw_tokens} tokens of a result, {tokens} as hits")
    assert list(parse_hits(result)) == [1, 2, 3, 4, 5, 6]
    assert result.endswith(PARTIAL)
    assert tokens < 500
    assert tokens * 4 < raw_tokens
