"""A picture made small for the model. Runs apart, in a killable process, never in the gateway's.

Pillow is imported only there; what it is given may be built to exhaust whoever opens it.
"""

import base64
import io
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

# The model sees an image as 280 soft tokens of 48 by 48 points each and scales every image to that area by
# itself: what is beyond would be sent with every prompt and thrown away.
MAX_AREA = 280 * 48 * 48
MAX_SIDE = 4096  # points; of a picture as narrow as a ribbon

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
_MAX_PIXELS = 50_000_000  # four bytes each while it is scaled down
_MAX_JPEG_PIXELS = 150_000_000  # it is scaled down while it is unpacked
_QUALITY = 85
_GREY_LEVELS = 256  # of sixteen bits in one of eight


def shrink_image(body: bytes) -> dict[str, Any]:
    """The first frame as `media_type` and `data` (base64): upright, small, and nothing but its points.

    Or what is wrong with it: `refused` is `unknown`, or `large` with `points`.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # it only warns, and counts what a JPEG never unpacks
    try:
        opened = Image.open(io.BytesIO(body), formats=_FORMATS)
    except UnidentifiedImageError:
        return {"refused": "unknown"}
    points = opened.width * opened.height
    if points > (_MAX_JPEG_PIXELS if opened.format == "JPEG" else _MAX_PIXELS):
        return {"refused": "large", "points": points}
    wanted = _fit_size(opened.width, opened.height)
    opened.draft("RGB", wanted)
    plain = _to_eight_bit(opened)
    plain.thumbnail(wanted, Image.Resampling.LANCZOS)
    return _encode_image(ImageOps.exif_transpose(plain))


def _fit_size(width: int, height: int) -> tuple[int, int]:
    """The size of the picture as it is sent; never larger than it is."""
    scale = min(1.0, math.sqrt(MAX_AREA / (width * height)), MAX_SIDE / max(width, height))
    return max(1, int(width * scale)), max(1, int(height * scale))


def _to_eight_bit(image: "Image") -> "Image":
    """The picture in colours of eight bits, with transparency if it has any."""
    if image.mode.startswith("I"):  # a plain conversion would burn out all but the darkest greys
        return image.convert("I").point(lambda grey: grey * (1 / _GREY_LEVELS)).convert("L").convert("RGB")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _encode_image(image: "Image") -> dict[str, Any]:
    image.info.clear()  # a comment or a colour profile would be written again
    form = "PNG" if image.mode == "RGBA" else "JPEG"
    written = io.BytesIO()
    image.save(written, form, quality=_QUALITY)
    return {"media_type": f"image/{form.lower()}", "data": base64.b64encode(written.getvalue()).decode()}
