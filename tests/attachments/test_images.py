"""A picture is sent upright, small, and without anything but its points; what cannot be opened is refused."""

import base64
from typing import Any

import pytest
from PIL import Image

from bot.attachments.images import MAX_AREA, MAX_SIDE, shrink_image
from tests.support import attachment_files as made

RED, BLUE = (254, 0, 0), (0, 0, 254)


def shrink_and_open(body: bytes) -> tuple[str, Image.Image, bytes]:
    """What becomes of a picture: media type, the picture, and its bytes."""
    found = shrink_image(body)
    data = base64.b64decode(found["data"])
    return found["media_type"], made.open_image(data), data


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF"])
def test_each_usual_kind_is_opened(form: str):
    media_type, image, _ = shrink_and_open(made.make_image(64, 48, form))
    assert (media_type, image.format, image.size) == ("image/jpeg", "JPEG", (64, 48))


@pytest.mark.parametrize("mode", ["CMYK", "L", "1", "P", "I;16"])
def test_each_way_of_colouring_is_understood(mode: str):
    form = "JPEG" if mode == "CMYK" else "PNG"
    body = (
        made.encode_image(Image.new(mode, (20, 20), 40_000), form)
        if mode == "I;16"
        else made.make_image(20, 20, form, mode)
    )
    assert shrink_and_open(body)[1].mode == "RGB"


def test_sixteen_bits_of_grey_are_not_burnt_out():
    grey = shrink_and_open(made.encode_image(Image.new("I;16", (20, 20), 32_768), "PNG"))[1].getpixel((9, 9))
    assert grey == (128, 128, 128)


@pytest.mark.parametrize(
    ("width", "height"), [(4000, 3000), (803, 804), (300, 12_000), (12_000, 90), (20_000, 3)]
)
def test_no_picture_has_more_points_than_the_model_sees(width: int, height: int):
    image = shrink_and_open(made.make_image(width, height, "PNG"))[1]
    assert image.width * image.height <= MAX_AREA
    assert max(image.size) <= MAX_SIDE
    # about as large as it may be
    assert image.width * image.height > MAX_AREA * 0.95 or max(image.size) > MAX_SIDE * 0.95


def test_a_small_picture_stays_as_large_as_it_is():
    assert shrink_and_open(made.make_image(10, 7))[1].size == (10, 7)


def test_a_picture_stands_upright():
    orientation = Image.Exif()
    orientation[0x0112] = 6  # to be turned by a quarter, clockwise
    image = shrink_and_open(made.make_image(400, 200, exif=orientation.tobytes()))[1]
    assert image.size == (200, 400)
    # the blue quarter was at the upper left, so it is at the upper right now
    assert (image.getpixel((150, 50)), image.getpixel((50, 350))) == (BLUE, RED)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_nothing_but_points_is_kept(form: str):
    about = Image.Exif()
    about[0x010E] = "the secret place"
    more: dict[str, Any] = {"comment": b"the secret place"} if form == "JPEG" else {}
    body = made.make_image(
        40, 40, form, "RGBA" if form == "PNG" else "RGB", exif=about.tobytes(), icc_profile=b"p", **more
    )
    assert b"the secret place" in body
    media_type, image, data = shrink_and_open(body)
    assert b"secret" not in data
    assert media_type == f"image/{form.lower()}"
    assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


@pytest.mark.parametrize(("form", "mode"), [("PNG", "RGBA"), ("PNG", "LA"), ("WEBP", "RGBA")])
def test_a_transparent_picture_stays_transparent(form: str, mode: str):
    clear = Image.new("RGBA", (30, 30), (1, 2, 3, 0)).convert(mode)
    media_type, image, _ = shrink_and_open(
        made.encode_image(clear, form, **({"lossless": True} if form == "WEBP" else {}))
    )
    assert (media_type, image.mode, image.convert("RGBA").getpixel((5, 5))[3]) == ("image/png", "RGBA", 0)  # type: ignore[index]


def test_of_a_moving_picture_the_first_frame_is_shown():
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("blue", "red")]
    body = made.encode_image(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert shrink_and_open(body)[1].getpixel((9, 9)) == BLUE


@pytest.mark.parametrize(
    "body", [b"", b"no picture", b"\xff\xd8\xff", made.make_image(9, 9, "BMP"), b"<svg></svg>"]
)
def test_what_is_no_picture_is_refused(body: bytes):
    assert shrink_image(body) == {"refused": "unknown"}


def test_a_picture_too_large_to_be_opened_is_refused_before_it_is():
    assert shrink_image(made.make_huge_png(8000, 8000)) == {"refused": "large", "points": 64_000_000}
