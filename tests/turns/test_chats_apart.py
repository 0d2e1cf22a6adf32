"""Whatever is searched for, no chat, group or topic is shown a passage of another one."""

import random
import re

from sqlalchemy import insert

from bot.bench.harness.prose import write_prose
from bot.db.engine import Database
from bot.db.tables import attachments, messages, turns
from bot.domain import Lane
from bot.turns.history_search import HistorySearch

LANES = [
    *(Lane(number) for number in (7, 8, 77, 107)),
    *(Lane(7, topic) for topic in (1, 2, 70)),
    *(Lane(-number) for number in (7, 8, 77, 100)),
    *(Lane(-8, topic) for topic in (1, 2, 7, 8, 80)),
    *(Lane(7, -number) for number in (8, 100)),
    *(Lane(77, topic) for topic in (1, 7)),
]
TURNS = 3
NOW = 1_780_000_000.0


def sign(text: str, lane_index: int) -> str:
    """Write the lane's number behind each fifth word."""
    words = text.split()
    return " ".join(f"{' '.join(words[at : at + 5])} lane{lane_index:02}" for at in range(0, len(words), 5))


async def fill(database: Database) -> None:
    """Store the same kinds of texts in all lanes, each with the lane's number in its words."""
    async with database.transaction() as tx:
        for number in range(len(LANES) * TURNS):
            lane_index = number % len(LANES)
            turn = {
                "id": number + 1,
                "item": number + 1,
                "lane": LANES[lane_index].key,
                "person": 7,
                "conversation": 1 + number // 60,
                "state": "ended",
                "tools": "[]",
                "thinking": False,
                "thinking_why": "",
                "received_at": NOW + number,
                "began_at": NOW + number,
            }
            await tx.execute(insert(turns).values(turn))
            for role in ("user", "tool", "assistant"):
                text = f"{sign(write_prose(20, number), lane_index)} harbour 密码 {role}?"
                row = {"turn": number + 1, "role": role, "text": text, "made_at": NOW + number}
                stored = await tx.execute(insert(messages).values(row).returning(messages.c.id))
            document = {
                "message": stored.scalar_one(),
                "kind": "document",
                "name": f"lane{lane_index:02}.txt",
                "media_type": "text/plain",
                "text": f"{sign(write_prose(200, number), lane_index)} harbour 密码",
            }
            await tx.execute(insert(attachments).values(document))


async def test_no_passage_of_one_chat_is_in_the_results_of_another(database: Database):
    await fill(database)
    generator = random.Random(5)
    words = [
        "harbour",
        "密码",
        "river",
        "salt and winter",
        *(f"lane{index:02}" for index in range(20)),
        "today",
    ]
    for lane_index, lane in enumerate(LANES):
        query = " ".join(generator.sample(words, generator.randint(1, 4)))
        found = await HistorySearch(database, lane).find(f"harbour {query}")
        assert found
        for passage in found:
            assert set(re.findall(r"lane\d\d", passage.text)) == {f"lane{lane_index:02}"}, (lane, query)
