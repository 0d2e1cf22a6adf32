"""Scripts and styles, read once and served under a name that changes with what is in them."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bot.db.people.page_sessions import ADMIN_PATH
from bot.usage.palette import render_css

_FOLDER = Path(__file__).with_name("static")
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_LONG_CACHE = "public, max-age=31536000, immutable"


class StaticFiles:
    """The files of the folder `static`, without licences, and the palette as a style."""

    def __init__(self) -> None:
        files = [file for file in _FOLDER.iterdir() if file.suffix in _MEDIA_TYPES]
        self._contents: Mapping[str, bytes] = {
            "palette.css": render_css().encode(),
            **{file.name: file.read_bytes() for file in files},
        }
        self._digests = {
            name: hashlib.sha256(content).hexdigest()[:12] for name, content in self._contents.items()
        }

    def build_url(self, name: str) -> str:
        """The address of a file, with the hash of what is in it."""
        return f"{ADMIN_PATH}/static/{self._digests[name]}/{name}"

    async def answer(self, request: Request) -> Response:
        """Answer a request for `static/{digest}/{name}`."""
        name = request.path_params["name"]
        if request.path_params["digest"] != self._digests.get(name):
            raise HTTPException(404)
        media_type = _MEDIA_TYPES[Path(name).suffix]
        return Response(self._contents[name], media_type=media_type, headers={"cache-control": _LONG_CACHE})
