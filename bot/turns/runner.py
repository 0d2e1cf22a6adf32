"""Runs turns, at most one a lane."""

import asyncio
from collections.abc import Awaitable, Callable

from bot.errors import StoreUnavailable
from bot.translations.translator import translatable
from bot.turns.execution import execute_turn
from bot.turns.handle import TurnHandle
from bot.turns.open_turn import TurnDependencies
from bot.turns.running_turns import RunningTurns
from bot.turns.turn_request import TurnRequest

REVISING = translatable("I'm answering your edited message.")

RequestCompleter = Callable[[TurnHandle], Awaitable[TurnRequest | None]]


class TurnRunner:
    """Runs turns; each can be stopped by `running_turns` meanwhile."""

    def __init__(self, dependencies: TurnDependencies, running_turns: RunningTurns) -> None:
        self._dependencies = dependencies
        self._running_turns = running_turns

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        """Answer a request, or continue answering it; its items are done when this returns.

        `complete` adds what has to be fetched first; it returns None if there is nothing to answer, which it
        has already said in the chat.
        """
        channel = self._dependencies.channel_for(
            request.lane,
            request.items[0].id,
            silent=request.silent,
            reply_to=request.reply_to,
            translate=request.translate,
        )
        timer = self._dependencies.timers.open(request.items[0], request.lane)
        handle = TurnHandle(request.items[-1].id, self._dependencies.turn_seconds, timer)
        self._running_turns.add(request.lane, handle)
        try:
            channel.begin("↻ " + request.translate(REVISING) if request.revises_answer else None)
            full_request = request if complete is None else await complete(handle)
            if full_request is None:
                self._dependencies.timers.forget(timer.item)
            else:
                is_parked = await execute_turn(self._dependencies, full_request, handle, channel)
                if is_parked:  # how long it waits is measured by its rows
                    self._dependencies.timers.forget(timer.item)
            timer.has_ended = True
        except StoreUnavailable:
            raise  # it is run again
        except asyncio.CancelledError:
            timer.wait_in_lane()
            raise
        except Exception:
            timer.has_ended = True  # it becomes a dead letter
            raise
        finally:
            self._running_turns.remove(request.lane)
            channel.end()
