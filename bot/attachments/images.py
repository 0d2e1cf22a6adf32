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
AREA = 280 * 48 * 48
SIDE = 4096  # points; of a picture as narrow as a ribbon

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
_POINTS = 50_000_000  # four bytes each while it is scaled down
_JPEG_POINTS = 150_000_000  # it is scaled down while it is unpacked
_QUALITY = 85
_GREYS = 256  # of sixteen bits in one of eight


def picture(body: bytes) -> dict[str, Any]:
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
    if points > (_JPEG_POINTS if opened.format == "JPEG" else _POINTS):
        return {"refused": "large", "points": points}
    wanted = _fitting(opened.width, opened.height)
    opened.draft("RGB", wanted)
    plain = _coloured(opened)
    plain.thumbnail(wanted, Image.Resampling.LANCZOS)
    return _encoded(ImageOps.exif_transpose(plain))


def _fitting(width: int, height: int) -> tuple[int, int]:
    """The size of the picture as it is sent; never larger than it is."""
    scale = min(1.0, math.sqrt(AREA / (width * height)), SIDE / max(width, height))
    return max(1, int(width * scale)), max(1, int(height * scale))


def _coloured(opened: "Image") -> "Image":
    """The picture in colours of eight bits, with transparency if it has any."""
    if opened.mode.startswith("I"):  # a plain conversion would burn out all but the darkest greys
        return opened.convert("I").point(lambda grey: grey * (1 / _GREYS)).convert("L").convert("RGB")
    return opened.convert("RGBA" if opened.has_transparency_data else "RGB")


def _encoded(image: "Image") -> dict[str, Any]:
    image.info.clear()  # a comment or a colour profile would be written again
    form = "PNG" if image.mode == "RGBA" else "JPEG"
    written = io.BytesIO()
    image.save(written, form, quality=_QUALITY)
    return {"media_type": f"image/{form.lower()}", "data": base64.b64encode(written.getvalue()).decode()}
