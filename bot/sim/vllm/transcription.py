"""The body of the transcription route: a form with a sound file in it.

Pure. What is heard is told by a function that whoever runs the endpoint may set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP

from bot.sim.vllm.errors import missing_field, unsupported_media_type


@dataclass(frozen=True, slots=True)
class AudioUpload:
    """A file somebody wants the text of, and the model that was asked for."""

    name: str
    media_type: str
    data: bytes
    model: str


Transcriber = Callable[[AudioUpload], str]


def transcribe_by_size(audio: AudioUpload) -> str:
    """The ear without imagination."""
    return f"a sound of {len(audio.data)} bytes"


def parse_audio_form(raw: bytes, content_type: str) -> AudioUpload:
    """The sound of a form with the fields `file` and `model`; raises Refusal when there is none."""
    if not content_type.startswith("multipart/form-data"):
        raise unsupported_media_type("multipart/form-data")
    form = BytesParser(policy=HTTP).parsebytes(b"content-type: " + content_type.encode() + b"\r\n\r\n" + raw)
    parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
    file = parts.get("file")
    if file is None or not file.get_filename():
        raise missing_field("body.file", parts)
    asked = parts.get("model")
    model = asked.get_content().strip() if asked is not None else ""
    data = file.get_payload(decode=True)
    assert isinstance(data, bytes)
    return AudioUpload(str(file.get_filename()), file.get_content_type(), data, model)
