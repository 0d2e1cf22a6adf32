"""Makes the result of a call of a service's response: text, the readable part of a page, or a picture."""

from tools.base import Found, ToolError
from tools.http.responses import find_page_charset, find_picture, render_response
from tools.http.service import HttpResponse
from tools.net.pages import extract_page

MAX_PAGE_CHARS = 200_000


async def build_result(response: HttpResponse, service_name: str, method: str) -> Found:
    """What the model reads and is shown. Raises ToolError when the service `service_name` refused."""
    picture = find_picture(response)
    if picture is not None:
        return Found(f"A picture ({picture.media_type}, {len(picture.data)} bytes).", (picture,))
    text = render_response(response, service_name, method)
    charset = find_page_charset(response)
    if charset is None or method == "HEAD":
        return Found(text)
    try:
        page = await extract_page(response.body, "html", charset, MAX_PAGE_CHARS)
    except ToolError:
        return Found(text)
    return Found("\n\n".join(part for part in (page["title"], page["text"]) if part) or text)
