"""The pictures of README can be taken at any time, and no colour of them is lost."""

from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Browser

from bot.usage.palette import COLOURS, ColourName
from tests.browser.pictures import FOLDER, take_pictures

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("quick_demos")]
READ_WIDTH = 560
MAX_WIDTH = 2 * READ_WIDTH  # before it is enlarged: else its letters are too small to read


def list_colours(file: Path) -> set[str]:
    """The colours of a picture, which must be one in full colour."""
    with Image.open(file) as image:
        assert image.mode == "RGB"
        assert image.width / 2 <= MAX_WIDTH
        counts = image.getcolors(maxcolors=image.width * image.height) or []
    return {"#{:02x}{:02x}{:02x}".format(*colour) for _, colour in counts if isinstance(colour, tuple)}


async def test_the_pictures_are_taken_anew(chromium: Browser, tmp_path: Path):
    await take_pictures(chromium, tmp_path)
    names: tuple[ColourName, ...] = ("canvas", "more", "own", "fault")
    assert {COLOURS[name].light for name in names} <= list_colours(tmp_path / "demo.png")
    assert len(list_colours(tmp_path / "turns.png")) > 2


async def test_the_pictures_of_readme_have_all_their_colours():
    for file in FOLDER.glob("*.png"):
        assert len(list_colours(file)) > 2
