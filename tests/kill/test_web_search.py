"""kill -9 in a turn that has searched the web: its sources come from what is stored, so they are the same."""

from bot.http_server import serve
from bot.sim.search_engine import JSON_ENABLED, SimulatedSearchEngine, WebPage
from bot.sim.vllm.server import ChatRequest, format_tool_call
from tests.kill.conftest import OpenEnvironment
from tests.kill.gateway import PATIENCE
from tests.support.endpoint.server import ScriptedEndpoint

PAGE = WebPage("https://site1.example/canvas", "New in canvas", "It grew.")
LATER_PAGE = WebPage("https://site2.example/canvas", "New in canvas since", "It shrank.")


async def test_while_an_answer_with_sources_is_written(surround: OpenEnvironment):
    endpoint = ScriptedEndpoint()

    def search_once(request: ChatRequest) -> str:
        if request.step == 0:
            return format_tool_call("search_web", {"question": "new in canvas"})
        if len(endpoint.requests) == 2:
            endpoint.hold()
        return "It grew [1], says https://made-up.example/page."

    endpoint.brain = search_once
    simulated = SimulatedSearchEngine([PAGE], JSON_ENABLED)
    async with serve(simulated.app) as search_url:
        environment = await surround(endpoint, search_url=search_url)
        environment.ann.send("What is new?")
        await endpoint.wait_until(
            lambda: [bool(request.seated_at) for request in endpoint.requests] == [True, True], PATIENCE
        )
        await environment.gateway.kill()
        simulated.pages = [LATER_PAGE]
        endpoint.release()
        await environment.gateway.start()
        await environment.wait_for_answers(
            "It grew [1], says https://made-up.example/page.\n\nSources: 1 site1.example"
        )
    links = [entity.get("url") for entity in environment.messages()[0].entities]
    assert links == [PAGE.url, None, PAGE.url]
    assert len(simulated.requests) == 1
