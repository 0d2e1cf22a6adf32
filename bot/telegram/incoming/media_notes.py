"""Names files to their sender, and says which of them were read only in part. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from bot.attachments.excerpts import Excerpt, ExcerptExtent, PageNoun
from bot.telegram.incoming.attachments import MediaItem
from bot.translations.formats import format_list, format_number
from bot.translations.translator import Translator, translatable

_MAX_NAMED_FILES = 10  # files that are called by name in one line
_MAX_PARTS = 3  # of files, each with a sentence

_NOUNS = {
    "photo": (translatable("your photo"), translatable("{count} of your photos")),
    "picture": (translatable("your picture"), translatable("{count} of your pictures")),
    "file": (translatable("your file"), translatable("{count} of your files")),
    "voice message": (translatable("your voice message"), translatable("{count} of your voice messages")),
    "video message": (translatable("your video message"), translatable("{count} of your video messages")),
    "video": (translatable("your video"), translatable("{count} of your videos")),
    "GIF": (translatable("your GIF"), translatable("{count} of your GIFs")),
}
_PAGE_RANGES: Mapping[PageNoun, tuple[str, str]] = {
    "page": (translatable("page {pages} of {total}"), translatable("pages {pages} of {total}")),
    "slide": (translatable("slide {pages} of {total}"), translatable("slides {pages} of {total}")),
    "sheet": (translatable("sheet {pages} of {total}"), translatable("sheets {pages} of {total}")),
}
_READ = (
    translatable("I read {files} only in part: {part}."),
    translatable("I read {files} only in part."),
)
_SEEN = (
    translatable("I looked at {files} only in part: {part}."),
    translatable("I looked at {files} only in part."),
)
_TEXTLESS = (
    translatable("I found no text on {part} of {files}."),
    translatable("I found pages without text in {files}."),
)


@dataclass(frozen=True, slots=True)
class MediaText:
    """What of the text that came with a message is read, and what its pages are called.

    `is_scanned`: its pages are looked at.
    """

    media: MediaItem
    excerpt: Excerpt
    page_noun: PageNoun = "page"
    is_scanned: bool = False


def describe_partial(media_texts: Sequence[MediaText], translate: Translator) -> str:
    """List what was read only in part, a sentence for each part of equal files; one for many parts."""
    files: dict[tuple[str, str], dict[str, list[MediaItem]]] = {_READ: {}, _SEEN: {}, _TEXTLESS: {}}
    for text in media_texts:
        excerpt = text.excerpt
        if excerpt.extent is not None and not excerpt.is_whole:
            part = _describe_extent(translate, excerpt.extent)
            files[_SEEN if text.is_scanned else _READ].setdefault(part, []).append(text.media)
        if excerpt.textless_pages:
            part = _count_pages(translate, excerpt.textless_pages, text.page_noun)
            files[_TEXTLESS].setdefault(part, []).append(text.media)
    sentences = []
    for (sentence, sentence_for_many), by_part in files.items():
        if len(by_part) > _MAX_PARTS:
            sentence = sentence_for_many
            by_part = {"": list(chain.from_iterable(by_part.values()))}
        for part, items in by_part.items():
            names = list_media(items, translate, with_names=True, as_code=True)
            sentences.append(translate(sentence, part=part, files=names))
    return " ".join(sentences)


def describe_frames(videos: Sequence[MediaItem], translate: Translator) -> str:
    """Say that of these no more than one frame was seen; "" if there are none."""
    if not videos:
        return ""
    files = list_media(videos, translate, with_names=True, as_code=True)
    return translate("I saw only one frame of {files}.", files=files)


def list_media(
    items: Sequence[MediaItem], translate: Translator, *, with_names: bool, as_code: bool = False
) -> str:
    """List files, by their names if they are few; `as_code`: since a name may hold Markdown."""
    with_names = with_names and len(items) <= _MAX_NAMED_FILES
    counts = Counter((item.noun, _format_name(item, as_code) if with_names else "") for item in items)
    names = [
        f"{_translate_noun(noun, count, translate)} {name}".rstrip() for (noun, name), count in counts.items()
    ]
    return format_list(translate, names)


def _describe_extent(translate: Translator, extent: ExcerptExtent) -> str:
    if extent.noun is None:
        return translate(
            "the first {shown} of {total} characters",
            shown=format_number(translate, extent.shown),
            total=format_number(translate, extent.total),
        )
    one, several = _PAGE_RANGES[extent.noun]
    if extent.shown > 1:
        pages = translate(several, pages=f"1-{extent.shown}", total=extent.total)
    else:
        pages = translate(one, pages=1, total=extent.total)
    if extent.is_cut:
        return translate("{pages}, not to the end", pages=pages)
    return pages


def _count_pages(translate: Translator, count: int, noun: PageNoun) -> str:
    match noun:
        case "page":
            return translate.plural("{count} page", "{count} pages", count)
        case "slide":
            return translate.plural("{count} slide", "{count} slides", count)
        case "sheet":
            return translate.plural("{count} sheet", "{count} sheets", count)


def _format_name(media: MediaItem, as_code: bool) -> str:
    if not as_code or not media.name:
        return media.name
    name = media.name.replace("`", "'")
    return f"`{name}`"


def _translate_noun(noun: str, count: int, translate: Translator) -> str:
    one, several = _NOUNS[noun]
    if count == 1:
        return translate(one)
    return translate(several, count=count)
