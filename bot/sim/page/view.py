"""What one person sees of one chat on the page, and does there: its events, for the browsers that show it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.sim.page.shapes import Json, is_service_message, to_draft_json, to_event_json, to_message_json
from bot.sim.telegram.chats import Chat
from bot.sim.telegram.server import BotApi, ChatThread, SimulatedPerson

MOST_WAITING = 500  # events a browser may be behind before it is shown everything afresh


@dataclass(frozen=True, slots=True)
class ViewLabels:
    """The name of the chat among a person's chats, its title, and the line below that."""

    chat: str
    title: str
    status: str


@dataclass(eq=False)
class ChatView:
    """One person's view of the chat `thread`. Events flow while `run` runs; `close` ends its streams.

    `files`: names and contents that are sent, as suggestions, in the place of these texts.
    `on_first_open` is called when it is opened for the first time. `find_shown_address` returns where a
    browser finds what a link leads to.
    """

    bot_api: BotApi
    person: SimulatedPerson
    thread: ChatThread
    labels: ViewLabels
    suggestions: Sequence[str] = ()
    on_first_open: Callable[[], object] = lambda: None
    find_shown_address: Callable[[str], str] = str
    files: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._breakdowns: dict[int, Json] = {}
        self._shown: dict[str, Json] = {}
        self._is_unopened = True

    @property
    def chat(self) -> Chat:
        return self.thread.chat

    async def run(self) -> None:
        """Pass on what happens in the chat until cancelled."""
        with self.bot_api.subscribe(self.chat.id) as events:
            async for event in events:
                if event.kind == "lost":
                    self._broadcast("all", self._to_snapshot())
                elif event.kind == "commands":
                    self._broadcast("commands", {"commands": self._list_menu()})
                elif not is_service_message(event.data or {}):
                    data = to_event_json(event, self.person.id)
                    self._broadcast(event.kind, self._with_shown_addresses(data))

    def close(self) -> None:
        """End every stream of events, for good."""
        for queue in self._listeners:
            queue.put_nowait(None)

    def show_breakdown(self, message_id: int, breakdown: Json) -> None:
        """Show a turn's breakdown (lines and figures, see static/account.js) below a message."""
        self._breakdowns[message_id] = breakdown
        self._broadcast("account", {"id": message_id, **breakdown})

    def show(self, name: str, data: Json) -> None:
        """Show what takes the place of what had this name, beside the chat."""
        if self._shown.get(name) != data:
            self._shown[name] = data
            self._broadcast(name, data)

    async def stream_events(self, page: Json) -> AsyncIterator[bytes]:
        """Everything there is, with what holds for the whole `page`; then each event as it comes."""
        if self._is_unopened:
            self._is_unopened = False
            self.on_first_open()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        queue.put_nowait(_format_event("page", page))
        queue.put_nowait(_format_event("all", self._to_snapshot()))
        self._listeners.add(queue)
        try:
            while (frame := await queue.get()) is not None:
                yield frame
        finally:
            self._listeners.discard(queue)

    def _to_snapshot(self) -> Json:
        chat = self.chat
        return {
            "title": self.labels.title,
            "status": self.labels.status,
            "isGroup": not self.chat.is_private,
            "suggestions": [*self.suggestions, *self.files],
            "commands": self._list_menu(),
            "messages": [
                self._with_shown_addresses(
                    to_message_json(message.raw, self.person.id, message.shown_reactions)
                )
                for message in chat.messages
                if not is_service_message(message.raw)
            ],
            "draft": to_draft_json(chat.draft.to_data()) if chat.draft else None,
            "accounts": [
                {"id": message_id, **breakdown} for message_id, breakdown in self._breakdowns.items()
            ],
            "shown": self._shown,
        }

    def _with_shown_addresses(self, data: Json) -> Json:
        """The data of an event; the links of a message lead to where a browser finds what is there."""
        if "entities" not in data:
            return data
        entities = [
            entity | {"url": self.find_shown_address(entity["url"])} if "url" in entity else entity
            for entity in data["entities"]
        ]
        return data | {"entities": entities}

    def _list_menu(self) -> list[Json]:
        return self.bot_api.list_menu(self.person, self.chat.id)

    def _broadcast(self, name: str, data: Json) -> None:
        frame = _format_event(name, data)
        for queue in self._listeners:
            if queue.qsize() >= MOST_WAITING:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(_format_event("all", self._to_snapshot()))
            else:
                queue.put_nowait(frame)


def _format_event(name: str, data: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
