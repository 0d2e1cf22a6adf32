"""The body of the transcription route: a form with a sound file in it.

Pure. A function that the caller may set returns the transcript.
"""

from collections.abc import Callable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP

from bot.sim.vllm.errors import missing_field, unsupported_media_type


@dataclass(frozen=True, slots=True)
class AudioUpload:
    """An uploaded sound file, and the model that is requested."""

    name: str
    media_type: str
    data: bytes
    model: str


Transcriber = Callable[[AudioUpload], str]


def transcribe_by_size(audio: AudioUpload) -> str:
    """The default transcriber: names the size of the sound."""
    return f"a sound of {len(audio.data)} bytes"


def parse_audio_form(raw: bytes, content_type: str) -> AudioUpload:
    """The sound of a form with the fields `file` and `model`; raises VllmRefusal when there is none."""
    if not content_type.startswith("multipart/form-data"):
        raise unsupported_media_type("multipart/form-data")
    form = BytesParser(policy=HTTP).parsebytes(b"content-type: " + content_type.encode() + b"\r\n\r\n" + raw)
    parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
    file = parts.get("file")
    if file is None or not file.get_filename():
        raise missing_field("body.file", parts)
    model_part = parts.get("model")
    model = model_part.get_content().strip() if model_part is not None else ""
    data = file.get_payload(decode=True)
    assert isinstance(data, bytes)
    return AudioUpload(str(file.get_filename()), file.get_content_type(), data, model)
