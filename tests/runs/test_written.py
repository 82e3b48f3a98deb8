"""The summary that a command makes of what it has written itself is that of its files."""

from __future__ import annotations

import asyncio
import math
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from golden_world import cts, say, working_in
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.analysis import summary
from cts_async.engine.journal import Journal, journal_line
from cts_async.errors import RejectedError
from cts_async.llm.apis import Message
from cts_async.protocol.views import SearchView
from cts_async.runs.journal import SpentPart, spent_by, system_of
from cts_async.runs.results import VerdictColumns
from cts_async.runs.written import WrittenFiles, WrittenResults, _is_flat
from cts_async.tables.summary import summary_json

ONE = ("--candidates", "candidates.jsonl")
TWO = (*ONE, "--candidates", "others.jsonl")
Says = Callable[[str, Sequence[Message]], str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data of the golden campaign as the current folder."""
    folder = tmp_path_factory.mktemp("golden")
    with working_in(folder, "0.7.0", "candidates.jsonl", "others.jsonl", "gold.jsonl", "cts.toml"):
        yield folder


class Summaries:
    """Compares each summary that a command makes with that of the files, and notes which files were not read."""

    def __init__(self) -> None:
        self.own: list[str] = []
        """Directories whose results, and journals whose steps, were known without reading them."""
        self._summarise = summary.summarise_runs

    def __call__(self, directories: Iterable[Path], written: WrittenFiles | None = None) -> Any:
        assert written is not None
        directories = list(directories)
        for journal in written.spent():
            self.own.append(str(journal))
        for directory in directories:
            if written.results(directory / "per_item.jsonl") is not None:
                self.own.append(str(directory))
        summaries = self._summarise(directories, written)
        for made, read in zip(summaries, self._summarise(directories), strict=True):
            assert summary_json(made) == summary_json(read)
            assert made.spent == read.spent
            assert list(made.failures) == list(read.failures)
            assert made.contradictions == read.contradictions
            for scores, scores_read in zip(made.judges, read.judges, strict=True):
                assert scores.ids.tolist() == scores_read.ids.tolist()
                assert scores.scores.tolist() == scores_read.scores.tolist()
                assert list(scores.failures) == list(scores_read.failures)
        return summaries


@pytest.fixture
def summaries(world: Path, monkeypatch: pytest.MonkeyPatch) -> Summaries:
    compared = Summaries()
    monkeypatch.setattr(summary, "summarise_runs", compared)
    return compared


def judge(out: str, *words: str, says: Says = say) -> int:
    result = cts("judge", "--gold", "gold.jsonl", "--out", out, "-q", *words, says=says)
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result.exit_code


def refuse_some(model: str, messages: Sequence[Message]) -> str:
    """Judge, but refuse one query, and answer another one in another form at first."""
    if "topic005" in messages[1]["content"]:
        raise RejectedError("refused: content policy")
    if "topic007" in messages[1]["content"] and len(messages) == 2:
        return "All are covered."
    return say(model, messages[:2])


@pytest.mark.parametrize("sync", [(), ("--sync",)], ids=["", "sync"])
@pytest.mark.parametrize(
    ("files", "judges", "own"),
    [
        (ONE, ("support",), ["steps.jsonl", "."]),
        (TWO, ("support",), ["steps.jsonl", "candidates", "others"]),
        (ONE, ("support", "strict"), ["steps.jsonl", "."]),
        (TWO, ("support", "strict", "lexical"), ["steps.jsonl", "candidates", "others"]),
    ],
)
def test_summary_of_own_lines_is_that_of_the_files(
    summaries: Summaries,
    tmp_path: Path,
    files: Sequence[str],
    judges: Sequence[str],
    own: Sequence[str],
    sync: Sequence[str],
) -> None:
    named = [word for name in judges for word in ("--judge", name)]
    judge(str(tmp_path), *files, *named, *sync)
    assert summaries.own == [str(tmp_path / name) for name in own]


def test_failures_and_repeated_attempts_are_in_the_summary_of_own_lines(
    summaries: Summaries, tmp_path: Path
) -> None:
    assert judge(str(tmp_path), *ONE, "--judge", "support", says=refuse_some) == 1
    assert summaries.own == [str(tmp_path / "steps.jsonl"), str(tmp_path)]


def test_a_resumed_command_reads_its_files(summaries: Summaries, tmp_path: Path) -> None:
    judge(str(tmp_path), *ONE, "--judge", "support", "--limit", "3")
    assert summaries.own == [str(tmp_path / "steps.jsonl"), str(tmp_path)]
    summaries.own.clear()
    judge(str(tmp_path), *ONE, "--judge", "support")
    judge(str(tmp_path), *ONE, "--judge", "support", "--retry-failed")
    assert summaries.own == []


FUNCTION = """
from cts_async import role

@role("judge")
async def flat(view, llm):
    await llm([{"role": "user", "content": view.query}], model="support", temperature=0)
    return [{"id": nugget.id, "coverage": "full"} for nugget in view.nuggets]

@role("judge")
async def deep(view, llm):
    reason = "unclear"
    for _ in range(150):
        reason = [reason]
    return {"results": await flat(view, llm), "reason": reason}

@role("judge")
async def deep_question(view, llm):
    cache = 1
    for _ in range(100):
        cache = [cache]
    content = [{"type": "text", "text": view.query, "cache": cache}]
    await llm([{"role": "user", "content": content}], model="support")
    return await flat(view, llm)
"""


@pytest.mark.parametrize(
    ("function", "own"),
    [("flat", ["steps.jsonl", "."]), ("deep", ["."]), ("deep_question", ["."])],
)
def test_steps_of_a_function_are_read_where_a_reader_may_find_them_nested_too_deeply(
    summaries: Summaries, tmp_path: Path, function: str, own: Sequence[str]
) -> None:
    (tmp_path / "mine.py").write_text(FUNCTION)
    mine = f"{tmp_path / 'mine.py'}:{function}"
    judge(str(tmp_path / "out"), *ONE, "--judge", mine, says=lambda model, messages: "Well.")
    assert b'"restore_score_100":100.0' in (tmp_path / "out" / "per_item.jsonl").read_bytes()
    assert summaries.own == [str(tmp_path / "out" / name) for name in own]


@pytest.mark.parametrize(
    ("value", "is_flat"),
    [
        ("text", True),
        (None, True),
        ({"messages": [{"role": "user", "content": "Why?"}], "params": {"stop": ["a"]}}, True),
        ([[[[1.5, True, 3]]]], True),
        ([[[[[]]]]], False),
        ({"a": {"b": {"c": {"d": {}}}}}, False),
        ({"messages": ("no", "JSON", "type")}, False),
        (SearchView("Why?"), False),
    ],
)
def test_values_of_few_levels_are_flat(value: Any, is_flat: bool) -> None:
    assert _is_flat(value) == is_flat


VERDICT = {
    "id": "q1",
    "judge": "mine",
    "nuggets": [{"id": "N1", "weight": 1, "coverage": "full"}],
    "restore_score_100": 100.0,
    "answer": "At nine.",
}


def followed(path: Path) -> tuple[WrittenFiles, WrittenResults]:
    """Return the files of a command that has begun a file of results, and what it notes of that file."""
    path.touch()
    files = WrittenFiles()
    written = files.follow_results(path)
    assert written is not None
    return files, written


def test_results_that_are_not_as_they_were_written_have_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "per_item.jsonl"
    files, written = followed(path)
    written.add(VERDICT, 10)
    assert files.results(path) is None  # not written yet, or the disk refused it
    path.write_bytes(b"0123456789")
    results = files.results(path)
    assert results is not None
    assert results.lines().scores.tolist() == [100.0]
    path.write_bytes(b"0123456789\n")
    assert files.results(path) is None  # longer: somebody else's line
    (tmp_path / "other").write_bytes(b"0123456789")
    (tmp_path / "other").rename(path)
    assert files.results(path) is None  # as long, but another file
    assert files.results(tmp_path / "unknown.jsonl") is None
    assert files.follow_results(path) is None  # has lines already


def test_results_with_a_line_that_no_reader_takes_have_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cts_async.runs.results.MAX_LINE", 10)
    path = tmp_path / "per_item.jsonl"
    files, written = followed(path)
    written.add(VERDICT, 9)
    written.add(VERDICT, 10)
    path.write_bytes(b"0" * 19)
    assert files.results(path) is None


def steps_of(system: str, n: int) -> list[dict[str, Any]]:
    """Steps of one model: some are repeated, one failed, one names another model that answered."""
    steps = []
    for i in range(n):
        step = {
            "key": f"{system}{i:030}",
            "ok": i % 5 != 3,
            "instance": f"{system}/q{i % 4}",
            "step": "judge/m",
            "model": "m",
            "latency_s": 0.1 * (i + 1) / 3,
            "usage": {"input": 7 * i, "output": i},
            "response": {"text": "...", "served_model": "m-2" if i % 3 else None},
        }
        if i % 4 == 1:
            step |= {"attempts": 2, "failed_attempts": [{"latency_s": 0.7, "error": "503"}]}
        steps.append(step)
    return steps


async def test_steps_that_other_processes_have_summed_count_as_one_by_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "steps.jsonl")
    files = WrittenFiles()
    files.follow_journal(journal, is_shared=True)
    for system, n in (("a", 5), ("b", 3), ("a", 7)):
        steps, part = steps_of(system, n), SpentPart()
        for step in steps:
            part.add(step)
        arrived = pickle.loads(pickle.dumps(part))
        assert (arrived.system, arrived.instances, arrived.is_whole) == (system, part.instances, True)
        assert arrived.spent.latency_s == part.spent.latency_s
        lines = list(map(journal_line, steps))
        sizes, keys = list(map(len, lines)), [step["key"] for step in steps]
        await journal.append_lines(b"".join(lines), sizes, keys, arrived)
    (sums,) = files.spent().values()
    assert sums == spent_by(journal.path, system_of)
    journal.close()


RESPONSES = st.fixed_dictionaries(
    {"text": st.sampled_from(["unknown", "I do not know.", "At nine.", None])},
    optional={
        "served_model": st.sampled_from(["m-1", "m-2", None]),
        "dropped": st.sampled_from([[], ["top_p"], ["top_p", "seed"]]),
        "served_tier": st.sampled_from(["", "flex"]),
        "cut_prompt": st.just(9_000),
    },
)
SECONDS = st.none() | st.integers(0, 3) | st.floats(0, 100)
STEPS = st.fixed_dictionaries(
    {
        "key": st.just("0" * 32),
        "ok": st.booleans(),
        "instance": st.sampled_from(["a/q1", "a/q2", "a/奥斯陆"]),
        "step": st.sampled_from(["judge/m", "judge/m/ask", "answer/1", "answer/1/x", "clarify"]),
    },
    optional={
        "model": st.sampled_from(["m", "n"]),
        "response": RESPONSES,
        "latency_s": SECONDS,
        "attempts": st.integers(1, 4),
        "failed_attempts": st.lists(st.fixed_dictionaries({}, optional={"latency_s": SECONDS}), max_size=2),
        "usage": st.dictionaries(st.sampled_from(["input", "output", "cached"]), st.integers(0, 10**6)),
        "reused": st.just("before"),
    },
)


@settings(deadline=None)
@given(updates=st.lists(st.lists(STEPS, min_size=1, max_size=6), max_size=6), often_whole=st.booleans())
def test_steps_summed_in_any_parts_are_those_read_from_the_file(
    updates: list[list[dict[str, Any]]], often_whole: bool
) -> None:
    """Or the file is read: where a part has steps that only a reader can sum. Floats are added in the same order."""
    is_whole = True
    for step in chain.from_iterable(updates):
        if often_whole:
            step.pop("reused", None)
            step.get("response", {}).pop("cut_prompt", None)
        is_whole = is_whole and not ("reused" in step or "cut_prompt" in step.get("response", {}))

    async def main(folder: Path) -> None:
        journal = Journal(folder / "steps.jsonl")
        files = WrittenFiles()
        files.follow_journal(journal, is_shared=True)
        for steps in updates:
            part = SpentPart()
            for step in steps:
                part.add(step)
            lines = list(map(journal_line, steps))
            arrived = pickle.loads(pickle.dumps(part))
            await journal.append_lines(b"".join(lines), list(map(len, lines)), [None] * len(steps), arrived)
        sums = list(files.spent().values())
        journal.close()
        assert sums == ([spent_by(journal.path, system_of)] if is_whole else [])

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))


async def test_steps_that_cannot_be_summed_apart_have_to_be_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "steps.jsonl")
    files = WrittenFiles()
    files.follow_journal(journal, is_shared=False)
    (cut,) = steps_of("a", 1)
    cut["response"]["cut_prompt"] = 9_000
    part, line = SpentPart(), journal_line(cut)
    part.add(cut)
    await journal.append_lines(line, [len(line)], [cut["key"]], part)
    assert files.spent() == {}
    journal.close()


def test_results_that_came_together_count_as_one_by_one(tmp_path: Path) -> None:
    failure = {"id": "q3", "judge": "mine", "error": {"kind": "rejected"}, "answer": "At ten."}
    rows = [
        VERDICT,
        failure,
        VERDICT | {"id": "q4", "restore_score_100": 37.5},
        failure | {"id": "q5", "answer": ""},
    ]
    (tmp_path / "per_item.jsonl").touch()
    (tmp_path / "others.jsonl").touch()
    files = WrittenFiles()
    singly = files.follow_results(tmp_path / "per_item.jsonl")
    together = files.follow_results(tmp_path / "others.jsonl")
    assert singly is not None
    assert together is not None
    for row in rows:
        singly.add(row, len(journal_line(row)))
    for part in (rows[:3], rows[3:]):
        verdicts = VerdictColumns()
        for row in part:
            verdicts.add(row)
        together.add_together(pickle.loads(pickle.dumps(verdicts)), [len(journal_line(row)) for row in part])
    singly.settle()
    together.settle()
    assert (together.judge, together.size) == (singly.judge, singly.size) == ("mine", singly.size)
    for name in ("offsets", "ids", "flags"):
        assert getattr(together.lines(), name).tolist() == getattr(singly.lines(), name).tolist()
    assert together.lines().scores.tolist() == pytest.approx([100.0, math.nan, 37.5, math.nan], nan_ok=True)


async def test_steps_of_other_processes_have_to_be_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "steps.jsonl")
    files = WrittenFiles()
    files.follow_journal(journal, is_shared=False)
    await journal.append({"key": "1" * 32, "ok": True, "instance": "q1", "step": "judge/mine", "model": "m"})
    (spent,) = files.spent().values()
    assert spent[""].calls == 1
    line = b'{"key":"22222222222222222222222222222222","ok":true,"instance":"q2"}\n'
    await journal.append_lines(line, [len(line)], ["2" * 32])
    assert files.spent() == {}
    journal.close()
