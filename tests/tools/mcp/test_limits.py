"""Lines and pace: nothing is kept beyond its bound, however it comes."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tools.mcp.limits import (
    MAX_MESSAGE_BYTES,
    MAX_MESSAGE_VALUES,
    ChangeBackoff,
    LineSplitter,
    OversizedMessage,
    ReadThrottle,
    weigh_message,
)


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=8), st.integers(1, 9))
def test_lines_are_the_same_however_they_are_chunked(lines: list[bytes], size: int):
    data = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter(max_bytes=100)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == [
        line for line in lines if line.strip()
    ]


def test_a_line_that_is_too_long_is_named_by_the_id_before_its_result_and_the_next_one_comes():
    splitter = LineSplitter(max_bytes=1000)
    early = json.dumps({"jsonrpc": "2.0", "id": 7, "result": "x" * 2000}).encode()
    late = json.dumps({"result": {"id": 7, "pad": "x" * 2000}, "id": 8}).encode()
    split = list(splitter.feed(early + b"\n" + late + b"\n{}\n"))
    assert split == [OversizedMessage(7), OversizedMessage(None), b"{}"]


def test_usual_messages_never_wait_and_a_flood_does():
    throttle = ReadThrottle()
    message = b'{"a": [1, 2]}' * 100
    assert all(throttle.next_delay(weigh_message(message), now=float(second)) == 0 for second in range(1000))
    assert all(
        throttle.next_delay(weigh_message(b"x" * MAX_MESSAGE_BYTES), now=1000.0) == 0 for _ in range(10)
    )
    assert throttle.next_delay(0, now=1030.0) == 0
    waits = [throttle.next_delay(600 * weigh_message(b"{}"), now=1000.0) for _ in range(3)]
    assert waits == sorted(waits)
    assert waits[0] > 5
    assert throttle.next_delay(10, now=2000.0) == 0


def test_a_message_of_very_many_values_is_not_read_and_a_long_text_is():
    many = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 3,
            "result": {"content": [{"type": "text", "text": ""}] * MAX_MESSAGE_VALUES},
        }
    )
    quoted = json.dumps({"jsonrpc": "2.0", "id": 4, "result": ["a, b: [c] {d}" * 90_000]})
    strange = json.dumps({"jsonrpc": "2.0", "id": 5, "result": [""] * 90_000})
    split = list(LineSplitter().feed(f"{many}\n{quoted}\n{strange}\n".encode()))
    assert split == [OversizedMessage(3), quoted.encode(), OversizedMessage(5)]
    assert weigh_message(many.encode()) > 10 * weigh_message(quoted.encode())


def test_a_server_whose_tools_keep_changing_is_listed_ever_more_seldom():
    backoff = ChangeBackoff(1.0, 600.0)
    now = 0.0
    pauses = []
    for _ in range(60):
        pauses.append(backoff.next_delay(now))
        now += pauses[-1]
    assert pauses[:5] == [1.0] * 5
    assert pauses == sorted(pauses)
    assert now / 60 > 200
    assert max(pauses) <= 600.0
    assert backoff.next_delay(now + 36_000.0) == 1.0
    assert ChangeBackoff(0.0, 600.0).next_delay(0.0) == 0.0
