"""People of one name are told apart in a group's prompts, and their names stay."""

from bot.db.engine import Database
from bot.db.people import speakers
from bot.domain import Lane

TOPIC = Lane(-100, 7)


async def test_equal_names_get_numbers_that_stay(database: Database):
    async with database.transaction() as tx:
        names = [await speakers.add(tx, TOPIC, person, "Ann") for person in (1, 2)]
        names.append(await speakers.add(tx, TOPIC, 3, "ANN"))
        names.append(await speakers.add(tx, TOPIC, 4, "Ann 2"))
        assert names == ["Ann", "Ann 2", "ANN 3", "Ann 2 2"]
        assert await speakers.add(tx, TOPIC, 1, "Anna") == "Ann"
        assert await speakers.find_name(tx, TOPIC, 2) == "Ann 2"
        assert await speakers.find_name(tx, Lane(-100), 2) is None
        assert await speakers.add(tx, Lane(-100), 2, "Ann") == "Ann"
