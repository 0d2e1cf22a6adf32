"""Documents as models write them, one a file, with all that has ever gone wrong."""

from pathlib import Path

CONTROL = (
    "zero\x00byte, bell\x07, escape\x1b[31m red, form\x0cfeed, vertical\x0btab, delete\x7f, nel\x85, "
    "line\u2028separator\u2029paragraph, bom\ufeff, return\rhere\r\nand there\n\ttab, "
    "half \ud83d of a pair\n\n"
    "\u200b\n\n\xa0\n"
)


def load_documents() -> dict[str, str]:
    """Every document by its name; `everything` is all of them, three times over."""
    read = {path.stem: path.read_text("utf-8") for path in sorted(Path(__file__).parent.glob("*.md"))}
    read["control"] = CONTROL
    return read | {"everything": "\n\n".join([*read.values()] * 3)}
