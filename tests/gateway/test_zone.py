"""A person's time zone, from a location they share: they are told, and the model's clock goes by it."""

from pathlib import Path

from tests.support.gateway import running_gateway


async def test_a_shared_location_sets_the_zone_once_and_times_go_by_it(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        gateway.ann.send_location(27.7, 85.3)
        texts = await gateway.wait_for_texts(2)
        [notice] = [text for text in texts if "time zone" in text]
        assert notice.startswith("Your time zone is Asia/Kathmandu; it's ")
        assert notice.endswith("If you're elsewhere, tell me a city: /zone Berlin")
        gateway.ann.send_location(27.71, 85.31)  # the same zone is not told again
        await gateway.wait_for_texts(3)
        gateway.ann.send_location(0.0, -30.0)  # neither is one at sea, which has none
        await gateway.wait_for_texts(4)
        gateway.ann.send("@@tool:clock {}@@")
        await gateway.wait_for_texts(5)
        assert "in Asia/Kathmandu (UTC+05:45)" in gateway.endpoint.requests[-1].prompt
        gateway.ann.send("/zone")
        assert "Asia/Kathmandu" in (await gateway.wait_for_texts(6))[-1]


async def test_a_place_elsewhere_only_offers_its_zone_where_one_is_known(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        gateway.ann.send("/zone Berlin")
        await gateway.wait_for_texts(1)
        gateway.ann.send_location(35.68, 139.69)
        texts = await gateway.wait_for_texts(3)
        assert "This place is in a different time zone from yours." in texts
        gateway.ann.send("/zone")
        assert "Europe/Berlin" in (await gateway.wait_for_texts(4))[-1]
        offer = next(message for message in gateway.api.chat(7).bot_messages if message.buttons)
        gateway.ann.tap(offer, "Use Asia/Tokyo")
        await gateway.api.wait_until(
            lambda: any(text.startswith("Your time zone is Asia/Tokyo") for text in gateway.texts())
        )
        gateway.ann.send("/zone")
        assert "Asia/Tokyo" in (await gateway.wait_for_texts(5))[-1]


async def test_a_city_in_the_next_message_or_in_a_reply_answers_the_question_for_the_zone(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off", time_zone="Etc/UTC") as gateway:
        gateway.ann.send("/remind morgen um 9 Zahnarzt")
        [question] = await gateway.wait_for_texts(1)
        assert question.startswith("Which time zone are you in?")
        gateway.ann.send("Where is Berlin?")
        await gateway.wait_for_texts(2)
        gateway.ann.send("/remind morgen um 10 Friseur")
        await gateway.wait_for_texts(3)
        requests = len(gateway.endpoint.requests)
        gateway.ann.send("ich bin in München.")
        texts = await gateway.wait_for_texts(6)
        assert texts[3].startswith("Your time zone is Europe/Berlin")
        assert [text.split("\n")[0] for text in texts[4:]] == [
            "⏰ I'll remind you: Zahnarzt",
            "⏰ I'll remind you: Friseur",
        ]
        assert all("(Europe/Berlin)" in text for text in texts[4:])
        gateway.ann.send("Paris")  # nothing waits for this city
        await gateway.wait_for_texts(7)
        assert len(gateway.endpoint.requests) == requests + 1


async def test_a_reply_to_the_question_answers_it_later_too(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        gateway.ann.send("/remind tomorrow at 9 dentist")
        await gateway.wait_for_texts(1)
        [question] = gateway.api.chat(7).bot_messages
        gateway.ann.send("Tell me a joke.")
        await gateway.wait_for_texts(2)
        gateway.ann.send("Lisbon", reply_to=question)
        texts = await gateway.wait_for_texts(4)
        assert texts[2].startswith("Your time zone is Europe/Lisbon")
        assert texts[3].startswith("⏰ I'll remind you: dentist")


async def test_a_city_answers_a_zone_command_that_asked_for_one(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off", time_zone="Etc/UTC") as gateway:
        gateway.ann.send("/remind tomorrow at 9 dentist")
        await gateway.wait_for_texts(1)
        gateway.ann.send("/zone Duckburg")
        assert "Duckburg" in (await gateway.wait_for_texts(2))[-1]
        gateway.ann.send("Lisbon")
        texts = await gateway.wait_for_texts(4)
        assert texts[2].startswith("Your time zone is Europe/Lisbon")
        assert texts[3].startswith("⏰ I'll remind you: dentist")
        gateway.ann.send("/zone")
        await gateway.wait_for_texts(5)
        gateway.ann.send("I'm in Berlin")
        assert (await gateway.wait_for_texts(6))[-1].startswith("Your time zone is Europe/Berlin")
        assert gateway.endpoint.requests == []
