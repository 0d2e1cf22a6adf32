"""A person's time zone, from a location they share: they are told, and the model's clock goes by it."""

from pathlib import Path

from tests.support.gateway import running_gateway


async def test_a_shared_location_sets_the_zone_once_and_times_go_by_it(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        gateway.ann.send_location(27.7, 85.3)
        texts = await gateway.wait_for_texts(2)
        [notice] = [text for text in texts if "time zone" in text]
        assert notice.startswith("Your time zone is Asia/Kathmandu, where it is ")
        assert notice.endswith("If you are elsewhere, tell me a city: /zone Berlin")
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
        assert "This place has another time zone than yours." in texts
        gateway.ann.send("/zone")
        assert "Europe/Berlin" in (await gateway.wait_for_texts(4))[-1]
        offer = next(message for message in gateway.api.chat(7).bot_messages if message.buttons)
        gateway.ann.tap(offer, "Set my time zone to Asia/Tokyo")
        await gateway.api.wait_until(
            lambda: any(text.startswith("Your time zone is Asia/Tokyo") for text in gateway.texts())
        )
        gateway.ann.send("/zone")
        assert "Asia/Tokyo" in (await gateway.wait_for_texts(5))[-1]
