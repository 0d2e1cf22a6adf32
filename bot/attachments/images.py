"""Shrinks a picture for the model. Runs in a killable process of its own, never in the gateway's.

Pillow is imported only there; a file may be made to exhaust the process that opens it.
"""

import base64
import io
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

# The model sees an image as so many soft tokens of 48 by 48 points each, by a flag of the server, and scales
# every image to that area by itself: more would be sent with every prompt and thrown away.
IMAGE_TOKENS = (280, 560, 1120)
AREA_PER_TOKEN = 48 * 48
DEFAULT_AREA = IMAGE_TOKENS[0] * AREA_PER_TOKEN
# A white square. Scaled to whole tokens it takes a little less than the server's number.
PROBE_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAK0lEQVR42u3MMREAAAgEoNf+nTWEmwcBqMlNRyAQCAQCgUAgEAgEAsHz"
    "YAFQLQF/OJ8+2wAAAABJRU5ErkJggg=="
)
_PROBE_SHARE = 0.9
MAX_SIDE = 4096  # points of the longer side, for very narrow pictures

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
_MAX_PIXELS = 50_000_000  # four bytes each while it is scaled down
_MAX_JPEG_PIXELS = 150_000_000  # a JPEG is scaled down while it is unpacked
_QUALITY = 85
_GREY_LEVELS = 256  # 16-bit levels in one 8-bit level


def find_image_tokens(prompt_tokens: int | None) -> int | None:
    """The server's number of tokens for a picture, by its count of a short prompt with `PROBE_PICTURE`."""
    fitting = (tokens for tokens in reversed(IMAGE_TOKENS) if (prompt_tokens or 0) >= _PROBE_SHARE * tokens)
    return next(fitting, None)


def shrink_image(body: bytes, max_area: int = DEFAULT_AREA) -> dict[str, Any]:
    """The first frame as `media_type` and `data` (base64): upright, of `max_area` points, without metadata.

    Or what is wrong with it: `refused` is `no picture`, or `large` with `points`.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # it only warns, and counts what a JPEG never unpacks
    try:
        image = _open_image(body)
    except UnidentifiedImageError:
        return {"refused": "no picture"}
    points = image.width * image.height
    max_points = _MAX_JPEG_PIXELS if image.format == "JPEG" else _MAX_PIXELS
    if points > max_points:
        return {"refused": "large", "points": points}
    size = _fit_size(image.width, image.height, max_area)
    image.draft("RGB", size)
    eight_bit = _to_eight_bit(image)
    eight_bit.thumbnail(size, Image.Resampling.LANCZOS)
    return encode_image(ImageOps.exif_transpose(eight_bit))


def _open_image(body: bytes) -> "Image":
    """The picture, also with a wrong checksum beside its points, as of a colour profile: browsers show it."""
    from PIL import Image, ImageFile, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(body), formats=_FORMATS)
    except UnidentifiedImageError:
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            return Image.open(io.BytesIO(body), formats=_FORMATS)
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = False  # a picture that is cut off is not shown


def _fit_size(width: int, height: int, max_area: int) -> tuple[int, int]:
    """The size of the picture as it is sent; never larger than the original."""
    scale = min(1.0, math.sqrt(max_area / (width * height)), MAX_SIDE / max(width, height))
    return max(1, int(width * scale)), max(1, int(height * scale))


def _to_eight_bit(image: "Image") -> "Image":
    """The picture in 8-bit colours, with transparency if it has any."""
    if image.mode.startswith("I"):  # a plain conversion would burn out all but the darkest greys
        return image.convert("I").point(lambda grey: grey * (1 / _GREY_LEVELS)).convert("L").convert("RGB")
    mode = "RGBA" if image.has_transparency_data else "RGB"
    return image.convert(mode)


def encode_image(image: "Image") -> dict[str, Any]:
    """The picture as `media_type` and `data` (base64), without metadata."""
    image.info.clear()  # a comment or a colour profile would be written again
    image_format = "PNG" if image.mode == "RGBA" else "JPEG"
    buffer = io.BytesIO()
    image.save(buffer, image_format, quality=_QUALITY)
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"media_type": f"image/{image_format.lower()}", "data": data}
