"""Writes entries of an export as JSON and as Markdown. Pure.

Whatever people, the model and tools wrote stands in a quotation of the Markdown, so that no heading, fence or
HTML of theirs reaches beyond it. Of a group only what stood in the group is written.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from bot.agent.answer_sources import EarlierResults, build_answer_links
from bot.agent.prompt import strip_data_marks, strip_files
from bot.agent.taint import TaintState
from bot.db.maintenance.exports import StoredEntry
from bot.domain import Lane, ToolCall, ToolResult
from bot.translations.translator import Translator, translatable
from bot.turns import restore_written, strip_stamp

FORMAT = 1
HEADINGS = {
    "user": translatable("Message"),
    "assistant": translatable("Answer"),
    "tool": translatable("Tool"),
    "sources": translatable("Sources:"),
}
_LINE_END = re.compile(r"\r\n|\r|\n")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CITATION = re.compile(r"\[(\d{1,2}(?:, ?\d{1,2}){0,9})\]")
_UNSHOWN = {"id", "turn", "message", "calls"}

ExportPiece = tuple[bytes, bytes]
"""An entry as Markdown and as JSON."""


@dataclass(frozen=True, slots=True)
class ExportWriter:
    """Writes what is exported of a lane, with times in `zone`; headings are translated."""

    lane: Lane
    zone: tzinfo
    translate: Translator
    made_at: float

    def write_entries(self, entries: Sequence[StoredEntry]) -> list[ExportPiece]:
        records = map(self.build_record, entries)
        return [
            (self.format_markdown(record).encode(), json.dumps(record, ensure_ascii=False).encode())
            for record in records
        ]

    def join_pieces(self, number: int, pieces: Sequence[ExportPiece]) -> dict[str, bytes]:
        """The files of a part, by name."""
        made_at = self._format_time(self.made_at)
        head = {"format": FORMAT, "chat": self.lane.chat, "made_at": made_at, "part": number}
        title = self.translate("What was said in this chat, as of {time}", time=made_at)
        name = f"chat-{made_at[:10]}-{number}"
        return {
            f"{name}.md": f"# {title}\n\n".encode() + b"".join(markdown for markdown, _ in pieces),
            f"{name}.json": f'{json.dumps(head)[:-1]}, "entries": [\n'.encode()
            + b",\n".join(record for _, record in pieces)
            + b"\n]}\n",
        }

    def build_record(self, entry: StoredEntry) -> dict[str, Any]:
        """An entry as the JSON has it."""
        if "turn" not in entry:
            return {"file": entry["name"], **self._show(entry)}
        is_group = self.lane.is_group
        # In a group nobody sees what the model writes beside its tool calls.
        said = [
            self._build_message(row, entry["attachments"])
            for row in entry["messages"]
            if not (is_group and row["calls"])
        ]
        record: dict[str, Any] = {
            "turn": entry["turn"],
            "topic": Lane.parse(entry["lane"]).topic,
            "conversation": entry["conversation"],
            "messages": [message for message in said if message["text"] or message["attachments"]],
            "sources": list_sources(entry),
        }
        if not is_group:
            record["tools"] = [self._show(row) for row in entry["tools"]]
            record["usage"] = [self._show(row) for row in entry["usage"]]
        return record

    def format_markdown(self, record: dict[str, Any]) -> str:
        """An entry as the Markdown has it."""
        if "turn" not in record:
            return f"## 📎\n\n{quote(record['file'])}\n\n{quote(fence(record['text']))}\n\n"
        topic = "" if record["topic"] is None else f" · {record['topic']}"
        headings = {name: self.translate(heading) for name, heading in HEADINGS.items()}
        blocks = []
        for message in record["messages"]:
            names = [f"📎 {attachment['name']}" for attachment in message["attachments"]]
            blocks.append(f"## {headings[message['role']]} · {message['made_at']}{topic}")
            blocks.append(quote("\n\n".join([message["text"], *names])))
        for tool in record.get("tools", ()):
            blocks.append(f"### {headings['tool']} · {tool['began_at']}")
            blocks.append(quote(fence(f"{tool['name']} {tool['arguments']}\n{tool['result'] or ''}")))
        if record["sources"]:
            blocks.append(f"### {headings['sources']}")
            blocks.append(quote("\n\n".join(record["sources"])))
        blocks += [quote(f"`{json.dumps(call)}`") for call in record.get("usage", ())]
        return "".join(f"{block}\n\n" for block in blocks)

    def _build_message(self, row: StoredEntry, attachments: Sequence[StoredEntry]) -> dict[str, Any]:
        text = row["text"]
        if row["role"] == "user" and self.lane.is_group:
            text = restore_written(text)
        elif row["role"] == "user":
            text = strip_data_marks(strip_files(strip_stamp(text))).strip()
        enclosed = [self._show(other) for other in attachments if other["message"] == row["id"]]
        return {**self._show(row), "text": text, "attachments": enclosed}

    def _show(self, row: StoredEntry) -> dict[str, Any]:
        """What of a row is for people, with times as they are written."""
        return {
            name: self._format_time(value) if name.endswith("_at") and value is not None else value
            for name, value in row.items()
            if name not in _UNSHOWN
        }

    def _format_time(self, moment: float) -> str:
        return datetime.fromtimestamp(moment, self.zone).isoformat(timespec="milliseconds")


def quote(text: str) -> str:
    """Text as a quotation, which ends only where it does; without control characters."""
    return "\n".join(f"> {_CONTROLS.sub('', line)}" for line in _LINE_END.split(text))


def fence(text: str) -> str:
    """Text as a block of code, behind a fence that it has not in itself."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}\n{text}\n{mark}"


def list_sources(turn: StoredEntry) -> list[str]:
    """The pages that a turn's answer rests on: those that it opened, and hits whose numbers it names."""
    results = [
        ToolResult(ToolCall("", row["name"], row["arguments"]), row["result"] or "", row["outcome"])
        for row in turn["tools"]
    ]
    links = build_answer_links(TaintState(), results, {}, (), EarlierResults())
    answer = turn["messages"][-1]["text"] if turn["messages"] else ""
    numbers = [int(number) for match in _CITATION.findall(answer) for number in match.split(",")]
    hits = links.cited or {}
    return list(dict.fromkeys([*(hits[number] for number in numbers if number in hits), *links.opened]))
