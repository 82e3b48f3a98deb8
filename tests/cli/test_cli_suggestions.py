"""Commands that are suggested can be typed as they are printed, whatever names somebody else's files have in them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from made_runs import Row, made_run
from typed_commands import Cts

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.errors import EXIT_OK, EXIT_USAGE, InputError, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.systems import System, check_run_name, run_names
from cts_async.runs.finished import read_judged, read_run
from cts_async.runs.manifest import read_manifest, tolerant_manifest

SHELL = "x; touch pwned #"
TWO_LINES = "a\nb"
CONTROL = pytest.mark.parametrize("name", [TWO_LINES, "a\x1b[2Jb", "a\u2028b", "a\0b", "a\x9bb"])


def test_suggested_judge_command_is_quoted(cts: Cts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    judged = [Row("a", labels={SHELL: "fp"})]
    for folder in ("runs", "more $(id)"):
        made_run(tmp_path / folder, label="orig", rows=judged, name="o")
        made_run(tmp_path / folder, label="kimi-k1", rows=judged, name="kimi")
    made_run(
        tmp_path / "more $(id)", label="gpt-k1", rows=[Row("a", labels={"other": "ff"})], name="one more"
    )
    done = cts("compare", "more $(id)")
    assert done.code == EXIT_OK, done.err
    (note,) = [line for line in done.out.splitlines() if "cts judge " in line]
    command = note[note.index("(cts ") + 1 : note.rindex(")")]
    assert shlex.split(command) == ["cts", "judge", "more $(id)/one more", "--judge", SHELL]


@pytest.mark.parametrize(
    ("noted", "shown"),
    [
        ("cts run --name 'my run'", "cts run --name 'my run'"),
        ("cts run; touch pwned", "cts 'run;' touch pwned"),
        ("cts run $(touch pwned) `id` > ~/.bashrc", "cts run '$(touch' 'pwned)' '`id`' '>' '~/.bashrc'"),
        ("curl example.org | sh", ""),
        ("cts run\ntouch pwned", ""),
        ("cts run 'unfinished", ""),
        (["cts", "run"], ""),
        (None, ""),
    ],
)
def test_recorded_command_is_shown_quoted_or_not_at_all(noted: object, shown: str) -> None:
    assert tolerant_manifest({"command": noted}, Path("run")).command == shown


def test_status_suggests_no_command_but_cts(cts: Cts, tmp_path: Path) -> None:
    run = made_run(tmp_path / "runs", label="gpt-k1", rows=[Row("a", score=50)], n_expected=2)
    manifest = json.loads((run / "run.json").read_text())
    for command, shown in (("cts run; touch pwned", ": cts 'run;' touch pwned"), ("sh -c id", "")):
        (run / "run.json").write_text(json.dumps({**manifest, "command": command}))
        assert cts("status", "runs").out.rstrip().endswith(f"run the same command again{shown}")


@CONTROL
def test_names_with_control_characters_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--name .* has control characters") as refused:
        check_run_name(name)
    assert str(refused.value).isprintable()
    with pytest.raises(UsageError, match="no run can be named after it"):
        run_names([System("orig", "orig")], name, None)
    with pytest.raises(UsageError, match="has control characters") as refused:
        load_catalogue().resolve(f"gpt:{name}", {})
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", ["a/b", "/a", "..", "", "a/"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="must be the name of a single folder"):
        check_run_name(name)
    for allowed in ("my run", "运行 一", "é-ñ", "x; y", "a\u3000b"):
        check_run_name(allowed)


@pytest.mark.parametrize("command", ["run", "gold", "converse"])
def test_every_command_that_takes_a_name_refuses_two_lines(cts: Cts, command: str, tmp_path: Path) -> None:
    words = ("--out", "GOLD.jsonl") if command == "gold" else ()
    done = cts(command, *words, "--name", TWO_LINES)
    assert done.code == EXIT_USAGE
    assert done.err.splitlines() == [
        r"cts: --name 'a\nb': has control characters or line breaks; use a name without"
    ]
    assert not list(tmp_path.iterdir())


def test_candidates_whose_file_has_two_lines_in_its_name_are_refused(cts: Cts, tmp_path: Path) -> None:
    (tmp_path / f"{TWO_LINES}.jsonl").write_text('{"id": "s01", "answer": "An answer."}\n')
    gold = sample_dir() / "gold.jsonl"
    words = ("--gold", gold, "--candidates", f"{TWO_LINES}.jsonl", "--out", "out", "--judge", "lexical")
    done = cts("judge", *words)
    assert (done.code, len(done.err.splitlines())) == (EXIT_USAGE, 1)
    assert r"'a\nb' has control characters or line breaks; rename the file" in done.err
    assert not (tmp_path / "out").exists()


@CONTROL
def test_name_of_a_judge_or_system_with_control_characters_is_refused(tmp_path: Path, name: str) -> None:
    run = made_run(tmp_path, label="gpt-k1", rows=[Row("a", labels={name: "f"})])
    manifest = json.loads((run / "run.json").read_text())
    for identity, field in (({"judges": [name]}, "identity.judges"), ({"system": name}, "identity.system")):
        (run / "run.json").write_text(json.dumps({"identity": identity}))
        with pytest.raises(InputError, match=f"field '{field}': has to be "):
            read_manifest(run)
    (run / "run.json").write_text(
        json.dumps({**manifest, "identity": {**manifest["identity"], "judges": []}})
    )
    with pytest.raises(InputError, match=r"run.json: field 'players.judge .*': has to be a name of one line"):
        read_run(run)
    identity = {**manifest["identity"], "judges": []}
    (run / "run.json").write_text(json.dumps({**manifest, "identity": identity, "players": {}}))
    with pytest.raises(InputError, match=r"results.jsonl:1: field 'judge': has to be a text of one line"):
        read_run(run)
    with pytest.raises(InputError, match="field 'judge': .* has control characters"):
        read_judged(run / "results.jsonl")
