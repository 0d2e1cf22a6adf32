"""The body of the transcription route: a form with a sound file in it.

Pure. What is heard is told by a function that whoever runs the endpoint may set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP

from bot.sim.vllm.errors import missing, unsupported


@dataclass(frozen=True, slots=True)
class Sound:
    """A file somebody wants the text of, and the model that was asked for."""

    name: str
    media_type: str
    data: bytes
    model: str


Transcribe = Callable[[Sound], str]


def by_size(sound: Sound) -> str:
    """The ear without imagination."""
    return f"a sound of {len(sound.data)} bytes"


def sound_of(raw: bytes, content_type: str) -> Sound:
    """The sound of a form with the fields `file` and `model`; raises Refusal when there is none."""
    if not content_type.startswith("multipart/form-data"):
        raise unsupported("multipart/form-data")
    form = BytesParser(policy=HTTP).parsebytes(b"content-type: " + content_type.encode() + b"\r\n\r\n" + raw)
    parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
    file = parts.get("file")
    if file is None or not file.get_filename():
        raise missing("body.file", parts)
    asked = parts.get("model")
    model = asked.get_content().strip() if asked is not None else ""
    data = file.get_payload(decode=True)
    assert isinstance(data, bytes)
    return Sound(str(file.get_filename()), file.get_content_type(), data, model)
