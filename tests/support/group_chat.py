"""A group of Ann's, Ben and Cleo in a running gateway's Telegram: what the bot has in each of its topics."""

from dataclasses import dataclass

from bot.sim.telegram.server import MAX_WAIT_SECONDS, ChatThread
from tests.support.gateway import GatewayHarness, is_being_written
from tests.support.telegram.server import ScriptedBotApi, ScriptedGroup, ScriptedPerson

GROUP = -1001000000001
BEN = 8
CLEO = 9


@dataclass(frozen=True)
class GroupHarness:
    """The people of a group and the group, which is the `thread` to write in outside of topics."""

    api: ScriptedBotApi
    group: ScriptedGroup
    ann: ScriptedPerson
    ben: ScriptedPerson
    cleo: ScriptedPerson

    def texts(self, thread: ChatThread | None = None) -> list[str]:
        """What the bot has now in a topic, or outside of topics, oldest first."""
        thread_id = thread.thread_id if thread else 0
        return [
            message.text
            for message in self.group.chat.bot_messages
            if (message.raw["message_thread_id"] if "is_topic_message" in message.raw else 0) == thread_id
        ]

    async def wait_for_texts(
        self,
        count: int = 1,
        thread: ChatThread | None = None,
        timeout: float = MAX_WAIT_SECONDS,  # noqa: ASYNC109
    ) -> list[str]:
        """The bot's messages of a topic once there are `count`, and none in the group is being written."""
        await self.api.wait_until(lambda: len(self.texts(thread)) >= count and self.is_finished(), timeout)
        return self.texts(thread)

    def is_finished(self) -> bool:
        """Whether no message of the bot has a Stop button, in no topic."""
        return not any(map(is_being_written, self.group.chat.bot_messages))


def open_group(
    api: ScriptedBotApi,
    owner: ScriptedPerson,
    *,
    is_forum: bool = False,
    is_basic: bool = False,
    hears_everything: bool = False,
    chat: int = GROUP,
) -> GroupHarness:
    """A group that `owner` has just put the bot into; everything reaches it only with privacy mode off."""
    api.change_bot(can_read_all_group_messages=hears_everything)
    ben, cleo = api.person(BEN, "Ben"), api.person(CLEO, "Cleo")
    group = api.add_group(
        chat, "Team", owner=owner, members=(ben, cleo), is_forum=is_forum, is_basic=is_basic
    )
    return GroupHarness(api, group, owner, ben, cleo)


async def press(gateway: GatewayHarness, button: str) -> None:
    """Press a button of Ann's newest message in private, which changes then."""
    message = gateway.ann.chat.bot_messages[-1]
    edits = len(message.edits)
    gateway.ann.tap(message, button)
    await gateway.api.wait_until(lambda: len(message.edits) > edits)


async def turn_on_reading(gateway: GatewayHarness, title: str) -> None:
    """Have Ann, an admin, turn reading along on for a group."""
    shown = len(gateway.texts())
    gateway.ann.send("/groups")
    await gateway.wait_for_texts(shown + 1)
    await press(gateway, title)
    await press(gateway, "Read along")
