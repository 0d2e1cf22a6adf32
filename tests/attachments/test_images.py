"""A picture is sent upright, small and without metadata; what cannot be opened is refused."""

import base64
import io
from typing import Any

import pytest
from PIL import Image, ImageCms

from bot.attachments.images import DEFAULT_AREA, MAX_SIDE, shrink_image
from tests.support.attachment_files import encode_image, make_huge_png, make_image, open_image

RED = (254, 0, 0)
BLUE = (0, 0, 254)


def shrink_and_open(body: bytes) -> tuple[str, Image.Image, bytes]:
    """The shrunk picture: media type, the picture, and its bytes."""
    result = shrink_image(body)
    data = base64.b64decode(result["data"])
    return result["media_type"], open_image(data), data


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "GIF"])
def test_each_usual_format_is_opened(image_format: str):
    media_type, image, _ = shrink_and_open(make_image(64, 48, image_format))
    assert (media_type, image.format, image.size) == ("image/jpeg", "JPEG", (64, 48))


@pytest.mark.parametrize("mode", ["CMYK", "L", "1", "P", "I;16"])
def test_each_colour_mode_is_converted(mode: str):
    image_format = "JPEG" if mode == "CMYK" else "PNG"
    if mode == "I;16":
        body = encode_image(Image.new(mode, (20, 20), 40_000), image_format)
    else:
        body = make_image(20, 20, image_format, mode)
    assert shrink_and_open(body)[1].mode == "RGB"


def test_sixteen_bit_greys_keep_their_brightness():
    grey = shrink_and_open(encode_image(Image.new("I;16", (20, 20), 32_768), "PNG"))[1].getpixel((9, 9))
    assert grey == (128, 128, 128)


@pytest.mark.parametrize(
    ("width", "height"), [(4000, 3000), (803, 804), (300, 12_000), (12_000, 90), (20_000, 3)]
)
def test_no_picture_has_more_pixels_than_the_model_sees(width: int, height: int):
    image = shrink_and_open(make_image(width, height, "PNG"))[1]
    assert image.width * image.height <= DEFAULT_AREA
    assert max(image.size) <= MAX_SIDE
    # about as large as it may be
    assert image.width * image.height > DEFAULT_AREA * 0.95 or max(image.size) > MAX_SIDE * 0.95


def test_a_small_picture_keeps_its_size():
    assert shrink_and_open(make_image(10, 7))[1].size == (10, 7)


def test_a_picture_is_turned_upright():
    orientation = Image.Exif()
    orientation[0x0112] = 6  # to be turned by a quarter, clockwise
    image = shrink_and_open(make_image(400, 200, exif=orientation.tobytes()))[1]
    assert image.size == (200, 400)
    # the blue quarter was at the upper left, so it is at the upper right now
    assert (image.getpixel((150, 50)), image.getpixel((50, 350))) == (BLUE, RED)


@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
def test_metadata_is_removed(image_format: str):
    exif = Image.Exif()
    exif[0x010E] = "the secret place"
    options: dict[str, Any] = {"comment": b"the secret place"} if image_format == "JPEG" else {}
    mode = "RGBA" if image_format == "PNG" else "RGB"
    body = make_image(40, 40, image_format, mode, exif=exif.tobytes(), icc_profile=b"p", **options)
    assert b"the secret place" in body
    media_type, image, data = shrink_and_open(body)
    assert b"secret" not in data
    assert media_type == f"image/{image_format.lower()}"
    assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


@pytest.mark.parametrize(("image_format", "mode"), [("PNG", "RGBA"), ("PNG", "LA"), ("WEBP", "RGBA")])
def test_a_transparent_picture_stays_transparent(image_format: str, mode: str):
    clear = Image.new("RGBA", (30, 30), (1, 2, 3, 0)).convert(mode)
    options = {"lossless": True} if image_format == "WEBP" else {}
    media_type, image, _ = shrink_and_open(encode_image(clear, image_format, **options))
    assert (media_type, image.mode) == ("image/png", "RGBA")
    assert image.convert("RGBA").getpixel((5, 5))[3] == 0  # type: ignore[index]


def test_the_first_frame_of_an_animation_is_used():
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("blue", "red")]
    body = encode_image(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert shrink_and_open(body)[1].getpixel((9, 9)) == BLUE


@pytest.mark.parametrize(
    "body", [b"", b"no picture", b"\xff\xd8\xff", make_image(9, 9, "BMP"), b"<svg></svg>"]
)
def test_a_file_that_is_no_picture_is_refused(body: bytes):
    assert shrink_image(body) == {"refused": "no picture"}


def test_a_picture_too_large_is_refused_before_it_is_opened():
    assert shrink_image(make_huge_png(8000, 8000)) == {
        "refused": "large",
        "points": 64_000_000,
    }


def spoil_checksum(body: bytes, chunk: bytes) -> bytes:
    """The PNG with one wrong bit in the checksum of its first chunk of this kind."""
    start = body.index(chunk)
    end = start + 4 + int.from_bytes(body[start - 4 : start])
    return body[:end] + bytes([body[end] ^ 1]) + body[end + 1 :]


def test_a_wrong_checksum_beside_the_picture_is_passed_over():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), RED).save(buffer, "PNG", icc_profile=profile)
    body = buffer.getvalue()
    spoiled = spoil_checksum(body, b"iCCP")
    assert shrink_and_open(spoiled)[1].size == (64, 48)
    with pytest.raises(OSError, match="truncated"):
        shrink_image(spoiled[: spoiled.index(b"IDAT") + 8])
