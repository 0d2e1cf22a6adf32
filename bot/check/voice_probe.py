"""Has the services for sound say and hear a word, and judges each as one more finding of a check."""

import time

from bot.attachments.speech import SpeechSynthesizer
from bot.attachments.transcription import SILENT, Transcriber
from bot.check.findings import Finding, Verdict, fail_verdict, pass_verdict, warn_verdict
from bot.errors import AttachmentUnusable, SpeechFailed
from bot.sim.vllm.speech import CHIME

WORD = "Hello."
SPEECH_HINT = "see SPEECH_URL, SPEECH_MODEL and SPEECH_VOICE, and that the server makes Opus"
TRANSCRIBE_HINT = "see TRANSCRIBE_URL and TRANSCRIBE_MODEL, and that the model is on the server"
_MAX_SHOWN_CHARACTERS = 40


async def probe_voice(
    synthesizer: SpeechSynthesizer | None, transcriber: Transcriber | None
) -> tuple[Finding, ...]:
    """A finding for each service that there is; what is spoken is what is to be heard."""
    findings = []
    sound = b""
    if synthesizer is not None:
        verdict, sound = await _judge_speech(synthesizer)
        findings.append(verdict.to_finding("speech", "voice messages are answered by voice"))
    if transcriber is not None:
        verdict = await _judge_transcription(transcriber, sound)
        findings.append(verdict.to_finding("transcription", "people send voice messages"))
    return tuple(findings)


async def _judge_speech(synthesizer: SpeechSynthesizer) -> tuple[Verdict, bytes]:
    began_at = time.monotonic()
    try:
        sound = await synthesizer.synthesize(WORD)
    except SpeechFailed as error:
        return fail_verdict(str(error), SPEECH_HINT), b""
    return pass_verdict(f"a word in {time.monotonic() - began_at:.1f} s, {len(sound)} bytes of Opus"), sound


async def _judge_transcription(transcriber: Transcriber, word: bytes) -> Verdict:
    began_at = time.monotonic()
    try:
        text = await transcriber.transcribe(word or CHIME, "sound.ogg", "audio/ogg")
    except AttachmentUnusable as error:
        if str(error) != SILENT:
            return fail_verdict(str(error), TRANSCRIBE_HINT)
        if word:
            return warn_verdict("it heard no word in what was spoken", "try another voice or another model")
        text = "no word in three notes"
    return pass_verdict(f"heard in {time.monotonic() - began_at:.1f} s: {text[:_MAX_SHOWN_CHARACTERS]}")
