"""What of an answer's Markdown is read out: its prose, without code, tables, links and sources. Pure."""

import re
import unicodedata

from bot.telegram.formatting.autolinks import find_addresses
from bot.telegram.formatting.markdown_events import MarkdownEvent, MarkdownTooDense, parse_markdown
from bot.telegram.formatting.markdown_guards import convert_latex
from bot.telegram.formatting.render import clean_text

MAX_SPEECH_CHARS = 1200
"""Longer texts are not read out: at the pace of speech they take more than a minute and a half."""

_MAX_SOURCE_CHARS = 8000  # of an answer worth looking at, with code and tables
_UNSPOKEN_KINDS = ("CodeBlock", "Table", "Image", "HtmlBlock", "MetadataBlock", "FootnoteDefinition")
_BLOCKS = ("Paragraph", "Heading", "Item", "BlockQuote")
_PLAIN_WORDS = re.compile(r"[^\W_]+(?:[ '-][^\W_]+)*")
_MARKS = re.compile(r"\[(?:\d[\d, ]*|[a-z]+:[^\]\n]{0,40})\]")  # of sources, and orders to speech servers
_FIRST_PICTURE_SYMBOL = 0x2190  # those before it have a name that is read, such as °
_PICTURE_JOINERS = frozenset("\ufe0f\u20e3\u200d")
_SPACE = re.compile(r"[ \t]+")
_SPACE_BEFORE_MARK = re.compile(r" ([.,;:!?])")
_SENTENCE_ENDS = ".!?…:;,。！？：；，、।"


def build_speech_text(markdown: str) -> str:
    """The words to read out; "" if there are none, or too many."""
    if len(markdown) > _MAX_SOURCE_CHARS:
        return ""
    try:
        events = parse_markdown(convert_latex(clean_text(markdown)))
    except MarkdownTooDense:
        return ""
    lines = [_clean_line(line) for line in _collect_lines(events)]
    spoken = [_end_sentence(line) for line in lines if _has_words(line)]
    while spoken and spoken[-1].endswith((":", "：")):
        del spoken[-1]  # it introduces what is left out
    text = "\n".join(spoken)
    return text if len(text) <= MAX_SPEECH_CHARS else ""


def _collect_lines(events: tuple[MarkdownEvent, ...]) -> list[str]:
    """The text of each block that is read out; one that is nothing but links is a source."""
    lines = [""]
    own_words = ""  # of the last line, outside of links
    unspoken_depth = 0
    link_depth = 0
    for event in events:
        unspoken_depth += event.is_start_of(*_UNSPOKEN_KINDS) - event.is_end_of(*_UNSPOKEN_KINDS)
        link_depth += event.is_start_of("Link") - event.is_end_of("Link")
        if unspoken_depth:
            continue
        leaf = _speak_leaf(event)
        lines[-1] += leaf
        own_words += leaf if not link_depth else ""
        if event.is_end_of(*_BLOCKS) or event.name in {"HardBreak", "Rule"}:
            if not _has_words(_MARKS.sub("", own_words)):
                del lines[-1]
            lines.append("")
            own_words = ""
    return lines


def _speak_leaf(event: MarkdownEvent) -> str:
    if event.name == "Text":
        return str(event.value)
    if event.name == "SoftBreak":
        return " "
    if event.name == "Code" and _PLAIN_WORDS.fullmatch(event.value):
        return str(event.value)
    return ""


def _clean_line(line: str) -> str:
    """The line without addresses, marks of sources and pictures."""
    for start, end in reversed([*find_addresses(line)]):
        line = line[:start] + line[end:]
    line = "".join(char for char in _MARKS.sub("", line) if not _is_picture(char))
    return _SPACE_BEFORE_MARK.sub(r"\1", _SPACE.sub(" ", line)).strip()


def _has_words(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _is_picture(char: str) -> bool:
    if char in _PICTURE_JOINERS:
        return True
    is_symbol = unicodedata.category(char) in {"So", "Sk"}
    return is_symbol and ord(char) >= _FIRST_PICTURE_SYMBOL


def _end_sentence(line: str) -> str:
    """The line with an end that is heard."""
    return line if line.endswith(tuple(_SENTENCE_ENDS)) else f"{line}."
