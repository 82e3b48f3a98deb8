"""Which finished steps of other runs are found, and from which of them a system may take a step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from cts_async.engine.events import Event, Events, Notice
from cts_async.engine.reuse import ReuseRule
from cts_async.engine.step import step_key
from cts_async.errors import UsageError
from cts_async.protocol.versions import Reuse
from cts_async.runs import reuse
from cts_async.runs.reuse import SystemSource

KEY = step_key(1)
SAMPLED, FIXED, BY_DEFAULT, DATED = ReuseRule


def line(key: str = KEY, text: str = "", **fields: Any) -> bytes:
    record = {
        "key": key,
        "ok": True,
        "instance": "q",
        "step": "answer/1",
        "response": {"text": text},
    } | fields
    return orjson.dumps(record) + b"\n"


def run(
    folder: Path, name: str, *lines: bytes, system: str = "a", date: str = "", start: str = "", **notes: Any
) -> Path:
    directory = folder / name
    directory.mkdir(parents=True)
    manifest = {
        "identity": {"system": system, "current_date": date},
        "fixed_temperature": 0.0,
        "sessions": [{"start": start}],
    }
    (directory / "run.json").write_bytes(orjson.dumps(manifest | notes))
    (directory / "steps.jsonl").write_bytes(b"".join(lines))
    return directory


class Folder:
    """A folder of runs as a system of a command sees it."""

    def __init__(self, folder: Path, **reuse_fields: Any) -> None:
        self.notices: list[str] = []
        self._reuse = Reuse(folder, **reuse_fields)
        self._events = Events(self._note)

    def _note(self, event: Event) -> None:
        assert isinstance(event, Notice)
        self.notices.append(event.text)

    def source(self, system: str = "a", *own: Path, **fields: Any) -> SystemSource:
        origins = self._reuse.origins(own, self._events)
        assert origins is not None
        return self._reuse.source(origins, system, **{"sends_defaults": True} | fields)

    def taken(self, rule: ReuseRule = SAMPLED, key: str = KEY, **fields: Any) -> tuple[str, str] | None:
        """OriginRun and text of the step that is taken."""
        step = self.source(**fields).find(key, rule)
        if step is None:
            return None
        return step.origin, step.record["response"]["text"]


# --- The rules

REFUSED = {"response": {"text": "", "dropped": ["temperature"]}}


@pytest.mark.parametrize(
    ("rule", "fields", "same_system", "other_system"),
    [
        (FIXED, {}, True, True),
        (FIXED, REFUSED, True, False),
        (FIXED, {"response": {"text": "", "dropped": ["top_p"]}}, True, True),
        (FIXED, {"response": {"text": "", "dropped": "temperature"}}, True, True),
        (SAMPLED, {}, True, False),
        (BY_DEFAULT, {}, True, True),
        (BY_DEFAULT, REFUSED, True, False),
        (DATED, {}, True, True),
    ],
)
def test_step_is_taken_from(
    tmp_path: Path, rule: ReuseRule, fields: Mapping[str, Any], same_system: bool, other_system: bool
) -> None:
    run(tmp_path, "r", line(**fields), date="2026-11-26")
    folder = Folder(tmp_path)
    for system, is_taken in (("a", same_system), ("b", other_system)):
        assert (folder.taken(rule, system=system, date="2026-11-26") is not None) == is_taken
    shared = Folder(tmp_path, shares_sampled=True)
    assert shared.taken(rule, system="b", date="2026-11-26") == ("r", "")


def test_web_of_another_date_is_not_taken_even_by_the_same_system(tmp_path: Path) -> None:
    run(tmp_path, "r", line(), date="2026-11-26")
    for folder in (Folder(tmp_path), Folder(tmp_path, shares_sampled=True)):
        assert folder.taken(DATED, date="2026-11-27") is None
        assert folder.taken(DATED, date="") is None


@pytest.mark.parametrize(("theirs", "ours"), [(None, True), (0.0, False), (None, False)])
def test_default_temperature_counts_only_where_both_send_it(
    tmp_path: Path, theirs: float | None, ours: bool
) -> None:
    run(tmp_path, "r", line(), fixed_temperature=theirs)
    folder = Folder(tmp_path)
    # Where neither sends it, the reply was sampled by the server's default.
    assert folder.taken(BY_DEFAULT, system="b", sends_defaults=ours) is None
    assert (folder.taken(BY_DEFAULT, sends_defaults=ours) is not None) == (theirs is None and not ours)


def test_system_of_judged_candidates_is_named_by_their_instances(tmp_path: Path) -> None:
    run(tmp_path, "out", line(instance="x/q1"), system="", systems=["x", "y"])
    folder = Folder(tmp_path)
    assert folder.taken(system="x") is not None
    assert folder.taken(system="y") is None


def test_failure_is_never_taken(tmp_path: Path) -> None:
    run(tmp_path, "r", line(ok=False), line(ok="true"), line(ok=1), line(step_key(2)))
    folder = Folder(tmp_path)
    assert folder.taken(FIXED) is None
    assert folder.taken(FIXED, key=step_key(2)) == ("r", "")


def test_step_with_other_notes_is_not_taken(tmp_path: Path) -> None:
    run(tmp_path, "r", line(step="search/told/1", notes={"tools": "t1"}))
    source = Folder(tmp_path).source()
    assert source.find(KEY, SAMPLED, {"tools": "t2"}) is None
    assert source.find(KEY, SAMPLED, {"tools": "t1"}) is not None
    assert source.find(KEY, SAMPLED) is not None


# --- Which of several


def test_step_of_the_run_that_was_worked_on_last_counts_and_in_it_the_last(tmp_path: Path) -> None:
    run(tmp_path, "x", line(text="x"), start="2026-11-25T00:00:00+00:00")
    run(tmp_path, "w", line(text="old"), line(text="new"), start="2026-11-26T00:00:00+00:00")
    run(tmp_path, "b", line(text="b"), system="b", start="2026-11-27T00:00:00+00:00")
    folder = Folder(tmp_path)
    assert folder.taken(SAMPLED) == ("w", "new")
    assert folder.taken(FIXED) == ("b", "b")
    assert folder.taken(SAMPLED, system="b") == ("b", "b")


def test_origin_is_the_run_that_executed_the_step_however_often_it_was_taken(tmp_path: Path) -> None:
    run(tmp_path, "v2", line(reused="v1"), start="2026-11-26T00:00:00+00:00")
    assert Folder(tmp_path).taken() == ("v1", "")


@pytest.mark.parametrize("lie", ["", 5, None, ["v1"], "two\nlines", "\x1b[31m", "n" * 5000])
def test_origin_that_cannot_be_a_name_is_not_passed_on(tmp_path: Path, lie: Any) -> None:
    run(tmp_path, "v2", line(reused=lie))
    assert Folder(tmp_path).taken() == ("v2", "")


def test_keys_that_share_64_bits_are_distinguished(tmp_path: Path) -> None:
    key, twin = "a" * 32, "a" * 16 + "b" * 16
    run(tmp_path, "r", line(key, "key"), line(twin, "twin"))
    folder = Folder(tmp_path)
    assert folder.taken(key=key) == ("r", "key")
    assert folder.taken(key=twin) == ("r", "twin")
    assert folder.taken(key="a" * 31 + "c") is None


# --- Steps within a custom role's step


def custom(key: str, step: str, **fields: Any) -> bytes:
    return line(key, step=step, request={"custom": "my.f"}, **fields)


def test_steps_within_come_along_those_of_the_same_instance_and_step_only(tmp_path: Path) -> None:
    lines = [
        line(step_key("llm"), step="clarify/llm/1"),
        line(step_key("failed"), step="clarify/llm/2", ok=False),
        line(step_key("page"), step="clarify/tool/1/page/1", reused="v0"),
        line(step_key("other"), step="clarify/llm/1", instance="q2"),
        line(step_key("turn"), step="clarify/1/llm/1"),
        line(step_key("search"), step="search/tool/1/query/1"),
        custom(KEY, "clarify"),
        custom(step_key("agent"), "search"),
        line(step_key("model"), step="rewrite"),
    ]
    run(tmp_path, "r", *lines)
    source = Folder(tmp_path).source()

    def within(key: str) -> list[str]:
        step = source.find(key, SAMPLED)
        assert step is not None
        return [record["key"] for record in step.within]

    assert within(KEY) == [step_key("llm"), step_key("page")]
    assert within(step_key("agent")) == [step_key("search")]
    assert within(step_key("model")) == []


def test_custom_step_beside_damage_is_not_taken_since_what_it_asked_may_be_damaged(tmp_path: Path) -> None:
    run(tmp_path, "r", b'{"key":\n', custom(KEY, "clarify"), line(step_key("model")))
    folder = Folder(tmp_path)
    assert folder.taken() is None
    assert folder.taken(key=step_key("model")) == ("r", "")


@pytest.mark.parametrize(
    "inner",
    [
        b'{"ok":true,"instance":"q","step":"clarify/llm/1","response":1}\n',
        b'{"key":[],"ok":true,"instance":"q","step":"clarify/llm/1","response":1}\n',
        b'{"key":"zz","ok":true,"instance":"q","step":"clarify/llm/1","response":1}\n',
        line(step_key("x"), step=5),
        line(step_key("x"), step="clarify/llm/1", instance=["q"]),
    ],
)
def test_malformed_line_within_is_nothing(tmp_path: Path, inner: bytes) -> None:
    run(tmp_path, "r", inner, custom(KEY, "clarify"))
    step = Folder(tmp_path).source().find(KEY, SAMPLED)
    assert step is None or step.within == []


# --- Folders


def test_only_another_runs_journal_is_an_origin(tmp_path: Path) -> None:
    own = run(tmp_path, "own", line(text="own"), start="2026-11-27T00:00:00+00:00")
    assert Reuse(tmp_path).origins([own], Events()) is None
    run(tmp_path, "deep/er/r", line(text="r"))
    assert Folder(tmp_path).source("a", own).find(KEY, SAMPLED).origin == "deep/er/r"  # type: ignore[union-attr]


def test_other_folders_are_named_by_whole_paths_and_the_same_folder_is_not_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = run(tmp_path / "elsewhere", "r", line(text="r"))
    (tmp_path / "runs").mkdir()
    linked = tmp_path / "linked"
    linked.symlink_to("elsewhere")
    for other in (Path("elsewhere"), elsewhere.parent, linked, elsewhere):
        assert Folder(Path("runs"), other_folders=(other,)).taken() == (str(elsewhere), "r")
    run(tmp_path / "runs", "here", line(text="here"), start="2026-11-27T00:00:00+00:00")
    for same in (Path("runs"), Path("./runs/"), tmp_path / "runs"):
        assert Folder(Path("runs"), other_folders=(same,)).taken() == ("here", "here")


def test_missing_folder_and_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "missing"):
        with pytest.raises(UsageError, match=f"--reuse .*{name}: no such folder"):
            Reuse(tmp_path, other_folders=(tmp_path / name,)).check()


# --- Hostile and damaged origins


def test_journal_that_is_a_link_or_a_pipe_is_named_and_skipped(tmp_path: Path) -> None:
    real = run(tmp_path / "else", "real", line())
    runs = tmp_path / "runs"
    for name in ("link", "pipe"):
        (run(runs, name) / "steps.jsonl").unlink()
    (runs / "link/steps.jsonl").symlink_to(real / "steps.jsonl")
    os.mkfifo(runs / "pipe/steps.jsonl")
    (runs / "linked").symlink_to(real)
    run(runs, "sound", line(step_key(2)))
    folder = Folder(runs)
    assert folder.taken() is None
    assert folder.taken(key=step_key(2)) == ("sound", "")
    for name in ("link", "pipe"):
        assert f"{runs / name}/steps.jsonl: nothing is reused from it: not a regular file" in folder.notices


def test_journal_replaced_by_a_pipe_after_the_folder_was_listed_blocks_nobody(tmp_path: Path) -> None:
    directory = run(tmp_path, "r", line())
    folder = Folder(tmp_path)
    source = folder.source()
    (directory / "steps.jsonl").unlink()
    os.mkfifo(directory / "steps.jsonl")
    assert source.find(KEY, FIXED) is None
    assert "nothing is reused from it" in folder.notices[0]


def test_damaged_lines_are_counted_and_the_others_taken(tmp_path: Path) -> None:
    broken = line(step_key(3)).replace(b'"text":"', b'"text":""')
    run(
        tmp_path,
        "r",
        line(),
        b"\xff\xfe garbage\n",
        line(step_key(2))[:-9] + b"\n",
        broken,
        line(step_key(4)),
    )
    folder = Folder(tmp_path)
    assert folder.taken(key=step_key(4)) == ("r", "")
    assert folder.taken() == ("r", "")
    assert folder.taken(key=step_key(2)) is None
    assert folder.taken(key=step_key(3)) is None
    assert "damaged lines: 2 (first: line 2); these steps are not reused" in folder.notices[0]


def test_line_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    directory = run(tmp_path, "r", line(), line(step_key(2))[:-1])
    folder = Folder(tmp_path)
    source = folder.source()
    assert source.find(step_key(2), FIXED) is None
    with (directory / "steps.jsonl").open("ab") as file:
        file.write(b"\n")
    assert source.find(step_key(2), FIXED) is None, "indexed once"
    assert Folder(tmp_path).taken(key=step_key(2)) == ("r", "")
    assert folder.notices == []


def test_manifest_with_lies_costs_at_most_its_run(tmp_path: Path) -> None:
    run(tmp_path, "sound", line(text="sound"))
    for i, text in enumerate(
        [b"", b"[]", b"{", b'{"identity": 5}', b'{"sessions": "x"}', b'{"reuses": "maybe"}']
    ):
        (run(tmp_path, f"lie{i}", line(step_key(2))) / "run.json").write_bytes(text)
    folder = Folder(tmp_path)
    assert folder.taken() == ("sound", "sound")
    named = [text for text in folder.notices if "nothing is reused from it" in text]
    assert len(named) == len(folder.notices) > 0


def test_many_damaged_runs_are_one_line(tmp_path: Path) -> None:
    for i in range(9):
        (run(tmp_path, f"r{i}", line()) / "run.json").write_text("{")
    folder = Folder(tmp_path)
    assert folder.taken() is None
    assert len(folder.notices) == reuse.MAX_NAMED_DAMAGE + 1
    assert folder.notices[-1].startswith("4 more runs are damaged")


def test_run_that_is_removed_or_rewritten_meanwhile_is_not_misread(tmp_path: Path) -> None:
    directory = run(tmp_path, "r", line(), line(step_key(2), "second"))
    source = Folder(tmp_path).source()
    assert source.find(KEY, FIXED) is not None
    # What is open stays readable; what is not is gone.
    shutil.rmtree(directory)
    assert source.find(KEY, FIXED) is not None
    run(tmp_path, "r", line(text="much longer than before") + line(step_key(2)))
    assert Folder(tmp_path).source().find(step_key(2), FIXED) is not None


def test_run_removed_between_index_and_reading_is_executed_again(tmp_path: Path) -> None:
    for i in range(reuse.MAX_OPEN_JOURNALS + 1):
        run(tmp_path, f"r{i:03}", line(step_key(i)))
    source = Folder(tmp_path).source()
    assert source.find(step_key(1), FIXED) is not None
    for i in (0, 5):
        shutil.rmtree(tmp_path / f"r{i:03}")
    # The first was closed to make room; the others are open still.
    assert [source.find(step_key(i), FIXED) is None for i in (0, 5, 64)] == [True, False, False]


def test_thousands_of_runs_are_open_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "MAX_OPEN_JOURNALS", 3)
    for i in range(50):
        run(tmp_path, f"r{i}", line(step_key(i), str(i)))
    source = Folder(tmp_path).source()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    for i in range(50):
        step = source.find(step_key(i), FIXED)
        assert step is not None
        assert step.origin == f"r{i}"
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 3
