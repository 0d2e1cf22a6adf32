"""Runs turns, at most one a lane, and holds the handle by which each is stopped or woken."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from bot.domain import Lane
from bot.errors import StoreUnavailable
from bot.translations.translator import translatable
from bot.turns.execution import execute_turn
from bot.turns.handle import TurnHandle
from bot.turns.open_turn import TurnDependencies
from bot.turns.turn_request import TurnRequest

# Seconds that the tools of a scheduled task may take to end before a person's message interrupts them.
SIDE_EFFECT_GRACE_SECONDS = 5.0

REVISING = translatable("I'm answering your changed message.")

RequestCompleter = Callable[[TurnHandle], Awaitable[TurnRequest | None]]


class TurnsElsewhere(Protocol):
    """The turns of lanes that other replicas have."""

    def stop(self, lane: Lane, before: int | None) -> None:
        """Have the lane's turn stopped where it runs, if it began before the item `before`."""
        ...

    def wake(self, lane: Lane) -> None:
        """Have the pause ended, where the lane's turn runs, before it retries."""
        ...


class TurnRunner:
    """Runs turns and stops them; `elsewhere` does for those that do not run here."""

    def __init__(
        self,
        dependencies: TurnDependencies,
        *,
        elsewhere: TurnsElsewhere | None = None,
    ) -> None:
        self._dependencies = dependencies
        self._elsewhere = elsewhere
        self._handles: dict[str, TurnHandle] = {}

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """Stop the lane's turn, if it began before the item `before`; False if nothing is stopped here."""
        if self._elsewhere is not None and lane.key not in self._handles:
            self._elsewhere.stop(lane, before)
        return self.stop_here(lane, before)

    def stop_edited(self, lane: Lane, before: int) -> bool:
        """Stop the lane's turn as `stop` does, because the message that it answers was edited."""
        return self.stop_here(lane, before, is_edited=True)

    def stop_here(self, lane: Lane, before: int | None = None, *, is_edited: bool = False) -> bool:
        """Stop the lane's turn as `stop` does, if it runs in this process."""
        handle = self._handles.get(lane.key)
        if handle is None or (before is not None and handle.newest_item >= before):
            return False
        handle.stop(is_edited=is_edited)
        return True

    def follow_chat(self, old_chat: int, new_chat: int) -> None:
        """Let the turn of a group be stopped and woken in the supergroup that the group has become."""
        handle = self._handles.pop(Lane(old_chat).key, None)
        if handle is not None:
            self._handles.setdefault(Lane(new_chat).key, handle)

    def can_yield(self, lane: Lane) -> bool:
        """Whether the lane's turn may give way now: calls that must not run twice get a grace period."""
        handle = self._handles.get(lane.key)
        if handle is None or handle.side_effects_since is None:
            return True
        return time.monotonic() - handle.side_effects_since >= SIDE_EFFECT_GRACE_SECONDS

    def wake(self, lane: Lane) -> None:
        """End the pause before the lane's turn retries: what it may do has changed."""
        if self._elsewhere is not None and lane.key not in self._handles:
            self._elsewhere.wake(lane)
        self.wake_here(lane)

    def wake_here(self, lane: Lane) -> None:
        """End that pause if the turn runs in this process."""
        handle = self._handles.get(lane.key)
        if handle is not None:
            handle.wake()

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
        self._handles[request.lane.key] = handle
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
            self._forget_handle(handle)
            channel.end()

    def _forget_handle(self, handle: TurnHandle) -> None:
        """Forget the handle of a turn that is over, in whichever lane it is by now."""
        self._handles = {lane: other for lane, other in self._handles.items() if other is not handle}
