"""The finding about web search: what is said of an engine that is off, works, or refuses JSON."""

from starlette.responses import Response

from bot.check.search_probe import JSON_IS_OFF, KEY_REFUSED, LIMITER_IS_ON, OFF, probe_search
from bot.http_server import serve
from bot.sim.search_engine import JSON_ENABLED, SimulatedSearchEngine, WebPage
from tools.search.brave import BraveEngine
from tools.search.searxng import SearxngEngine


async def test_the_finding_says_what_an_admin_may_do():
    finding = await probe_search(None)
    assert (finding.status, finding.seen) == ("pass", OFF)
    simulated = SimulatedSearchEngine([WebPage("https://sky.example/", "Weather", "Rain.")])
    async with serve(simulated.app) as url:
        engine = SearxngEngine(url)
        finding = await probe_search(engine)
        assert (finding.status, finding.seen, finding.mend) == (
            "fail",
            "the search engine answered 403",
            JSON_IS_OFF,
        )
        simulated.formats = JSON_ENABLED
        finding = await probe_search(engine)
        assert (finding.status, finding.mend) == ("pass", None)
        assert finding.seen.startswith("1 hits, ")
        simulated.unresponsive = (("bing", "timeout"),)
        assert (await probe_search(engine)).status == "warn"
        simulated.pages = ()
        assert (await probe_search(engine)).seen == "it finds nothing"
        simulated.response = Response(status_code=429)
        assert (await probe_search(engine)).mend == LIMITER_IS_ON
        assert (await probe_search(BraveEngine("key", f"{url}/search"))).mend == KEY_REFUSED
        simulated.response = Response(status_code=404)
        assert "SEARCH_URL" in str((await probe_search(engine)).mend)
