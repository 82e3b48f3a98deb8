"""What InteractComp's parser makes of yes-no replies, worked by hand, and counted over a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from cts_async.analysis.original_replies import FAILED, read_by_original, reply_readings
from cts_async.tables.asking import replies_table


@pytest.mark.parametrize(
    ("reply", "reading"),
    [
        ("yes", "yes"),
        ("Yes.", "yes"),  # no word that it knows, but "yes" is in it
        ("是的", "yes"),
        ("no", "no"),
        ("NO!", "no"),
        ("不是", "no"),
        ("i don't know", "i don't know"),
        ("I don't know", "i don't know"),
        ("I don't know.", "no"),  # k-n-o-w
        ("I don’t know", "no"),  # a curly apostrophe
        ("unknown", "no"),
        ("not stated", "no"),
        ("I cannot say", "no"),
        ("Yes and no", "yes"),
        ("It is not said, yes?", "yes"),
        ("No.\nYes.", "no"),  # the first line alone
        ("\n\n yes\nno", "yes"),
        ("maybe", "i don't know"),
        ("不知道", "i don't know"),
        ("我不知道", "i don't know"),
        ("", "i don't know"),
        (" \n ", "i don't know"),
    ],
)
def test_reply_is_read_as_the_original_program_reads_it(reply: str, reading: str) -> None:
    assert read_by_original(reply) == reading


def record(
    instance: str, text: str | None, *, step: str = "search/ask/1", refused: tuple[str, ...] = ()
) -> Any:
    line: dict[str, Any] = {"key": "0" * 32, "ok": text is not None, "instance": instance, "step": step}
    if text is not None:
        line["response"] = {"text": text}
    line["failed_attempts"] = [
        {"kind": "unusable_output", "message": "x", "latency_s": 0, "text": attempt} for attempt in refused
    ]
    return line


def test_replies_of_a_run_are_counted_by_both_readings(tmp_path: Path) -> None:
    records = [
        record("1", "yes"),
        record("2", "I don't know."),
        record("2", "I don’t know.", step="search/ask/2"),
        record("3", "unknown"),
        # Asked again here, since it is none of the three; the original program takes the first reply.
        record("4", "no", refused=("It is not by the lake, but yes, it is old.",)),
        # Never a reply that can be used, and no reply at all: failures here, words there.
        record("5", None, refused=("not stated", "not stated")),
        record("6", None),
        # Failed, and asked for again later: the last one counts.
        record("7", None),
        record("7", "No."),
        record("8", "yes", step="search/turn/1"),
    ]
    (tmp_path / "steps.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in records))
    readings = reply_readings(tmp_path, "orig+ask3-yesno")
    assert readings.counts == {
        ("yes", "yes"): 1,
        ("i don't know", "no"): 3,
        ("no", "yes"): 1,
        (FAILED, "no"): 1,
        (FAILED, "i don't know"): 1,
        ("no", "no"): 1,
    }
    # Three that are not known and the one that was said twice; failures are no readings.
    assert (readings.n, readings.n_turned, readings.n_failed) == (8, 4, 2)
    assert readings.examples["i don't know", "no"] == ["I don't know.", "I don’t know.", "unknown"]
    table = replies_table([readings], with_examples=True)
    assert table.remarks == (
        "4 of 8 replies (50.0%) would have been turned round; 2 failed here, and would have become a word there.",
    )
    shown = {(row["reading"], row["original"]): row["replies"] for row in table.rows if row["turned"]}
    assert shown == {
        ("i don't know", "no"): 3,
        ("no", "yes"): 1,
        (FAILED, "no"): 1,
        (FAILED, "i don't know"): 1,
    }
    # A report has no words of a user.
    assert all("examples" not in row for row in replies_table([readings], with_examples=False).rows)
