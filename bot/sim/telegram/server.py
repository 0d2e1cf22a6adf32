"""A simulated Telegram Bot API over HTTP: as strict as the real one, without global state.

The demo and the bench hold one `BotApi`, serve its `app`, and act through people; tests extend it.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, TypeVar

from bot.http_server import serve
from bot.sim.telegram.accounts import Account, ChatThread
from bot.sim.telegram.chats import Chat
from bot.sim.telegram.command_menus import find_menu
from bot.sim.telegram.events import BotApiCall, ChatEvent, Subscription
from bot.sim.telegram.flood_limits import FloodLimits, FloodRate
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.groups import SimulatedGroup
from bot.sim.telegram.http import BotApiApp
from bot.sim.telegram.members import Member
from bot.sim.telegram.params import Json
from bot.sim.telegram.people import SimulatedPerson
from bot.sim.telegram.world import World

__all__ = [
    "Account",
    "BotApi",
    "BotApiCall",
    "ChatEvent",
    "ChatThread",
    "FloodLimits",
    "FloodRate",
    "SimulatedGroup",
    "SimulatedPerson",
]

T = TypeVar("T")

_BOT_ID = 123456

# The front end of the real one is nginx, whose default this is. One that closes sooner than the client does
# drops a connection now and then at the moment of a send: 2 of 9,000 answers were of unknown outcome so.
KEEP_ALIVE_SECONDS = 75
MAX_WAIT_SECONDS = 240.0  # seconds until a wait for what never comes is given up; the machine may be busy


class BotApi:
    """One bot's Telegram."""

    def __init__(self, username: str = "canvasgram_sim_bot", limits: FloodLimits | None = None) -> None:
        self.token = f"{_BOT_ID}:SIM"
        self.username = username
        self.bot: Json = {
            "id": _BOT_ID,
            "is_bot": True,
            "first_name": "Canvasgram",
            "username": username,
        }
        self.bot |= {
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
            "supports_guest_queries": False,
            "has_topics_enabled": True,
        }
        self._world = self.build_world(limits or FloodLimits())
        self.app = self.build_app()
        self._people: dict[int, SimulatedPerson] = {}
        self.calls = self.app.calls
        self.clock = self._world.clock

    def build_world(self, limits: FloodLimits) -> World:
        """What there is: nothing yet but the bot."""
        return World(self.bot, limits)

    def build_app(self) -> BotApiApp:
        """The app to be served."""
        return BotApiApp(self._world, self.token)

    def build_person(self, user: Json, thread: ChatThread) -> SimulatedPerson:
        """A person with this private chat."""
        return SimulatedPerson(self._world, user, thread)

    def build_group(self, chat: GroupChat, owner: Json) -> SimulatedGroup:
        """A group that this user owns."""
        return SimulatedGroup(self._world, chat, owner)

    @asynccontextmanager
    async def serve_on_loopback(self, port: int = 0) -> AsyncIterator[str]:
        """Serve `app` on loopback while the block runs; yields the URL. Calls open at its end are cut."""
        async with serve(self.app, port=port, keep_alive_seconds=KEEP_ALIVE_SECONDS) as url:
            try:
                yield url
            finally:
                self.app.cut_connections()

    @property
    def commands(self) -> list[dict[str, Any]]:
        """The command menu as last set for all languages, of any scope."""
        menus = [menu for (_, language), menu in self._world.commands.items() if not language]
        return next(reversed(menus), [])

    def person(
        self, user_id: int, first_name: str = "Ann", *, username: str = "", language: str = "en"
    ) -> SimulatedPerson:
        """The person with this id; the same object each time.

        The bot can write to them once they have written to it.
        """
        if user_id not in self._people:
            names = {"first_name": first_name} | ({"username": username} if username else {})
            user = {"id": user_id, "is_bot": False, **names, "language_code": language}
            chat = self._world.add_private_chat({"id": user_id, "type": "private", **names})
            self._world.users[user_id] = user
            self._people[user_id] = self.build_person(user, ChatThread(chat))
        return self._people[user_id]

    def add_group(
        self,
        chat_id: int,
        title: str,
        *,
        owner: SimulatedPerson,
        members: Iterable[SimulatedPerson] = (),
    ) -> SimulatedGroup:
        """A supergroup of `owner`, who has just put the bot into it; its id is negative."""
        group = self.open_group({"id": chat_id, "type": "supergroup", "title": title}, owner, members)
        group.change_member(self.bot, "member")
        return group

    def open_group(
        self, raw: Json, owner: SimulatedPerson, members: Iterable[SimulatedPerson]
    ) -> SimulatedGroup:
        """A group without the bot."""
        chat = self._world.add_group_chat(raw)
        chat.members[owner.id] = Member(owner.user, "creator")
        for person in members:
            chat.members[person.id] = Member(person.user)
        return self.build_group(chat, owner.user)

    def change_bot(self, **flags: bool) -> None:
        """Change at BotFather what getMe says, such as `can_read_all_group_messages` (privacy mode, off).

        In groups that the bot is in, privacy mode stays as it was until the bot is added again.
        """
        self.bot.update(flags)

    def list_menu(self, person: SimulatedPerson, chat_id: int | None = None) -> list[Json]:
        """The commands that a person is offered in a chat, their private one by default."""
        return find_menu(self._world, self.chat(chat_id or person.id), person.user)

    def chat(self, chat_id: int) -> Chat:
        """A chat as its people see it; KeyError for one that does not exist."""
        return self._world.chats[chat_id]

    def find_file(self, file_id: str) -> bytes | None:
        """What somebody has sent as a photo or a file; None: there is no such file."""
        file = self._world.files.find(file_id)
        return None if file is None else file.content

    def calls_of(self, method: str, chat_id: int | None = None) -> list[BotApiCall]:
        """The calls of a method so far, of one chat if named."""
        return [call for call in self.calls if call.method == method and chat_id in (None, call.chat_id)]

    async def wait_until(self, predicate: Callable[[], T], timeout: float = MAX_WAIT_SECONDS) -> T:  # noqa: ASYNC109 - it is a wait
        """The first true value of `predicate`, which is called after each change.

        Raises TimeoutError after `timeout` seconds.
        """
        return await self._world.changes.wait_until(predicate, timeout)

    def subscribe(
        self, chat_id: int | None = None, *, size: int = 1000
    ) -> AbstractContextManager[Subscription]:
        """`with api.subscribe(chat_id) as events: async for event in events: ...` of one chat or of all.

        Holds up to `size` events, then drops them and reports `lost`.
        """
        return self._world.changes.subscribe(chat_id, size)
