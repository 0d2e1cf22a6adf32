"""The HTTP side of the simulated Bot API with faults, delays and guests."""

import asyncio
from collections.abc import Mapping

from bot.sim.telegram.events import BotApiCall
from bot.sim.telegram.http import BotApiApp, BotApiResponse, Connection, error_response
from bot.sim.telegram.methods import Method
from bot.sim.telegram.params import Params
from bot.sim.telegram.world import World
from tests.support.telegram import guest_queries
from tests.support.telegram.faults import BotApiFault, FaultInjection
from tests.support.telegram.world import ScriptedWorld


class FaultyBotApiApp(BotApiApp):
    """The ASGI app of one bot. `latency` is the seconds that every answer takes to travel."""

    def __init__(self, world: ScriptedWorld, token: str) -> None:
        self.latency = 0.0
        self.injections: list[FaultInjection] = []
        self.fetch_times: dict[int, float] = {}
        self._scripted_world = world
        super().__init__(world, token)

    def build_methods(self) -> Mapping[str, Method]:
        """The methods by name in lower case."""

        def answer_guest_query(_: World, params: Params) -> object:
            return guest_queries.answer_guest_query(self._scripted_world, params)

        return {**super().build_methods(), "answerguestquery": answer_guest_query}

    async def respond(self, connection: Connection, api_call: BotApiCall) -> None:
        """Carry a call out and answer it, each unless a fault prevents it."""
        fault = next((i.fault for i in self.injections if i.take_call(api_call)), None) or BotApiFault()
        answer = await self._carry_out(connection, api_call, fault)
        if self.latency:
            await asyncio.sleep(self.latency)
        if fault.ending == "silence":
            api_call.outcome = "hung"
            await connection.wait_for_disconnect()
        elif fault.ending == "cut" and not connection.is_disconnected:
            api_call.outcome = "cut"
            connection.close()
            await connection.wait_for_disconnect()  # so that uvicorn misses no answer
        else:
            await self.send_response(connection, api_call, answer)

    async def _carry_out(
        self, connection: Connection, api_call: BotApiCall, fault: BotApiFault
    ) -> BotApiResponse:
        if fault.seconds_before:
            await asyncio.sleep(fault.seconds_before)
        answer = _fault_response(fault)
        if fault.takes_effect:
            own_answer = await self.call_method(connection, api_call)
            if fault.ending != "error":
                answer = own_answer
        if fault.seconds_after:
            await asyncio.sleep(fault.seconds_after)
        return answer

    async def send_response(
        self, connection: Connection, api_call: BotApiCall, response: BotApiResponse
    ) -> None:
        """Answer a call, unless its client is gone."""
        await super().send_response(connection, api_call, response)
        if api_call.answered_at is not None:
            self._scripted_world.scripted_updates.mark_sent(response.updates)
            for update_id in api_call.update_ids:
                self.fetch_times.setdefault(update_id, api_call.answered_at)


def _fault_response(fault: BotApiFault) -> BotApiResponse:
    if fault.html_page:
        return BotApiResponse(
            fault.status, fault.html_page.encode(), b"text/html", description=fault.description
        )
    parameters = {"retry_after": fault.retry_after} if fault.retry_after else None
    return error_response(fault.status, fault.description, parameters)
