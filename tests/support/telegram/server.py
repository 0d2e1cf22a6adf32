"""The simulated Bot API of the tests: with faults, delays, guests, other bots and groups of every kind."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from bot.sim.telegram.accounts import ChatThread
from bot.sim.telegram.chats import Chat
from bot.sim.telegram.events import BotApiCall
from bot.sim.telegram.flood_limits import FloodLimits
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Json
from bot.sim.telegram.people import SimulatedPerson
from bot.sim.telegram.server import BotApi
from tests.support.telegram.accounts import ScriptedAccount
from tests.support.telegram.faults import BotApiFault, FaultInjection
from tests.support.telegram.groups import ScriptedGroup
from tests.support.telegram.http import FaultyBotApiApp
from tests.support.telegram.people import ScriptedPerson
from tests.support.telegram.world import ScriptedWorld

__all__ = ["BotApiFault", "ScriptedAccount", "ScriptedBotApi", "ScriptedGroup", "ScriptedPerson"]


class ScriptedBotApi(BotApi):
    """One bot's Telegram.

    `latency`: the seconds each answer takes to travel; it may be changed at any time.
    `mentions_pass_privacy` is whether a mention reaches a bot in privacy mode; sources disagree, and the
    default is the worse case. `throttles_polls` is as in ScriptedUpdateQueue.
    """

    def __init__(
        self,
        username: str = "canvasgram_sim_bot",
        limits: FloodLimits | None = None,
        *,
        mentions_pass_privacy: bool = False,
        throttles_polls: bool = False,
    ) -> None:
        self.mentions_pass_privacy = mentions_pass_privacy
        self._throttles_polls = throttles_polls
        super().__init__(username, limits)
        self.updates = self._scripted_world.scripted_updates

    def build_world(self, limits: FloodLimits) -> ScriptedWorld:
        """What there is: nothing yet but the bot."""
        self._scripted_world = ScriptedWorld(self.bot, limits, throttles_polls=self._throttles_polls)
        return self._scripted_world

    def build_app(self) -> FaultyBotApiApp:
        """The app to be served."""
        self._faulty_app = FaultyBotApiApp(self._scripted_world, self.token)
        return self._faulty_app

    def build_person(self, user: Json, thread: ChatThread) -> ScriptedPerson:
        """A person with this private chat."""
        return ScriptedPerson(self._scripted_world, user, thread)

    def build_group(self, chat: GroupChat, owner: Json) -> ScriptedGroup:
        """A group that this user owns."""
        chat.mentions_pass = self.mentions_pass_privacy
        return ScriptedGroup(self._world, chat, owner)

    @property
    def latency(self) -> float:
        return self._faulty_app.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        self._faulty_app.latency = seconds

    def person(
        self, user_id: int, first_name: str = "Ann", *, username: str = "", language: str = "en"
    ) -> ScriptedPerson:
        """The person with this id; the same object each time."""
        person = super().person(user_id, first_name, username=username, language=language)
        return cast(ScriptedPerson, person)

    def add_group(
        self,
        chat_id: int,
        title: str,
        *,
        owner: SimulatedPerson,
        members: Iterable[SimulatedPerson] = (),
        is_forum: bool = False,
        is_basic: bool = False,
    ) -> ScriptedGroup:
        """A group of `owner`, who has just put the bot into it; its id is negative.

        A supergroup, unless it `is_basic`; `is_forum` has topics.
        """
        raw: Json = {"id": chat_id, "type": "group" if is_basic else "supergroup", "title": title}
        if is_forum:
            raw["is_forum"] = True
        group = self.open_group(raw, owner, members)
        group.change_member(self.bot, "member")
        return group

    def add_foreign_group(
        self, chat_id: int, title: str, *, owner: SimulatedPerson, members: Iterable[SimulatedPerson] = ()
    ) -> ScriptedGroup:
        """A supergroup that the bot was never in, for guest queries."""
        group = self.open_group({"id": chat_id, "type": "supergroup", "title": title}, owner, members)
        group.chat.is_known = False
        return group

    def open_group(
        self, raw: Json, owner: SimulatedPerson, members: Iterable[SimulatedPerson]
    ) -> ScriptedGroup:
        """A group without the bot."""
        return cast(ScriptedGroup, super().open_group(raw, owner, members))

    def add_other_bot(self, user_id: int, first_name: str, username: str) -> ScriptedAccount:
        """Another bot; `change_member` of a group lets its `user` in."""
        user = {"id": user_id, "is_bot": True, "first_name": first_name, "username": username}
        self._world.users[user_id] = user
        private_chat = Chat({"id": user_id, "type": "private"}, self.clock, itertools.count(1))
        return ScriptedAccount(self._world, user, ChatThread(private_chat))

    def fetched_at(self, update_id: int) -> float | None:
        """When the first answer carrying this update had left, by `time.monotonic`; None if none has."""
        return self._faulty_app.fetch_times.get(update_id)

    def inject_fault(
        self,
        fault: BotApiFault,
        method: str | None = None,
        *,
        chat_id: int | None = None,
        when: Callable[[BotApiCall], bool] | None = None,
        times: int | None = 1,
        skip: int = 0,
    ) -> FaultInjection:
        """Fail the next `times` calls (None: all) of this method and chat that satisfy `when`.

        The first `skip` of them succeed. Of several faults, the first injected one that applies to a call
        hits it.
        """
        injection = FaultInjection(fault, method, chat_id, when, times, skip)
        self._faulty_app.injections.append(injection)
        return injection

    def push_update(self, raw: Mapping[str, Any] | bytes) -> int:
        """Queue an update of any content, also malformed: a mapping, or bytes sent exactly as they are."""
        return self.updates.put_raw(raw)
