"""Whatever a user gets wrong ends in exit 2 and one line that says what and where; nothing is started."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from qulac_rows import SMALL
from typed_commands import cts_in
from typer.testing import CliRunner

import cts_async
from cts_async.cli.main import app, main
from cts_async.cli.options import HEADINGS, Grouped

OURS = str(Path(cts_async.__file__).parents[1])
"""Where the package under test is, whatever is installed."""


def named_commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command and group of commands with what is typed for it."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from named_commands(command, f"{path} {name}".lstrip())


ALL: dict[str, Any] = dict(named_commands(typer.main.get_command(app)))
GROUPS = [path for path, command in ALL.items() if hasattr(command, "commands")]
COMMANDS = [path for path in ALL if path not in GROUPS]
GROUPED = [path for path, command in ALL.items() if isinstance(command, Grouped)]
ROOT = Path(__file__).parents[2]
NUGGET = {"id": "N1", "text": "the ferry leaves at nine", "weight": 3}


def refused(cwd: Path, *args: str) -> str:
    """What `cts` says on refusing: one line, and no trace of a run."""
    before = sorted(cwd.rglob("*"))
    done = cts_in(cwd, *args)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(cwd.rglob("*")) == before
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def jsonl(path: Path, *lines: object) -> str:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path.name


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Queries, gold, answers and documents, and files that are broken in one place."""
    (tmp_path / "queries.csv").write_text("id,fused_query,blurred_query\nq1,winter ferry times,ferry\n")
    page = {"id": "d1", "url": "https://a.example/1", "title": "Ferry", "text": "The ferry leaves at nine."}
    jsonl(tmp_path / "corpus.jsonl", page)
    good = [{"id": f"q{i}", "gold": {"nuggets": [NUGGET]}} for i in (1, 2)]
    jsonl(tmp_path / "gold.jsonl", *good)
    jsonl(tmp_path / "torn.jsonl", *good, '{"id": "q3", "gold": {\n')
    heavy = {"id": "q3", "gold": {"nuggets": [{**NUGGET, "weight": "heavy"}]}}
    jsonl(tmp_path / "heavy.jsonl", *good, heavy)
    jsonl(tmp_path / "answers.jsonl", {"id": "q1", "answer": "at nine"})
    jsonl(tmp_path / "broken.jsonl", '{"id":\n')
    (tmp_path / "qulac.json").write_text(json.dumps(SMALL))
    (tmp_path / "release").mkdir()
    return tmp_path


def help_of(command: str) -> str:
    """The help of a command, on a terminal of 80 columns."""
    asked = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80"}, prog_name="cts")
    assert asked.exit_code == 0
    return asked.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_fits_80_columns(command: str) -> None:
    said = help_of(command)
    assert f"Example: cts {command} " in " ".join(said.split()) + " "
    assert max(map(len, said.splitlines())) <= 80
    assert not re.search("<[a-z]|[{][A-Z]", said), "a value's name, not its type in Python"
    if command in GROUPED:
        headings = re.findall(r"^([A-Z][a-z ]+):$", said, re.MULTILINE)
        assert [one for one in headings if one != "Arguments"] == [one for one in HEADINGS if one in headings]
        assert said.count("\n  -h, --help ") == said.count("\n  --config ") == said.count("\n  --seed ") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_in_help_parse(command: str) -> None:
    found = ALL[command]
    paragraphs = (" ".join(text.split()) for text in found.help.split("\n\n"))
    typed = [text.partition(f": cts {command} ")[2] for text in paragraphs if f": cts {command} " in text]
    for words in typed:
        found.make_context(command, shlex.split(words.partition(" >")[0]))  # refuses what it does not know


MINIMAL = {
    "judge": "cts judge --gold gold.jsonl --candidates answers.jsonl --judge lexical --out judged",
    "score": "cts score labels.jsonl --gold gold.jsonl",
}


@pytest.mark.parametrize(
    ("source", "commands"),
    [("judge", ["judge"]), ("score", ["score"]), ("docs/usage.md", ["judge", "score"])],
)
def test_minimal_files_work_as_typed(tmp_path: Path, source: str, commands: list[str]) -> None:
    """Of two instances one is covered, by the answers and by the labels."""
    text, name = (ROOT / source).read_text("utf-8") if "/" in source else help_of(source), ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("{") and name:
            with (tmp_path / name).open("a") as file:
                file.write(f"{line}\n")
        else:
            name = line if re.fullmatch(r"\w+\.jsonl", line) else ""
    for typed in map(MINIMAL.__getitem__, commands):
        assert f" {typed} " in " ".join(text.split()) + " "
        done = cts_in(tmp_path, *typed.split()[1:])
        assert (done.returncode, done.stderr) == (0, "")
        assert "50.00" in done.stdout


@pytest.mark.parametrize("group", GROUPS)
def test_group_help_lists_every_command_untruncated(group: str) -> None:
    listed = help_of(group).split("Commands:")[1]
    within = [
        name.removeprefix(group).split()[0]
        for name in COMMANDS
        if f"{name} ".startswith(f"{group} ".lstrip())
    ]
    assert {line.split()[0] for line in listed.splitlines() if line.strip()} == set(within)
    assert "..." not in listed, "each says in one line what it does"


def test_short_help_option_prints_the_same_help(tmp_path: Path) -> None:
    assert cts_in(tmp_path, "models", "-h").stdout == cts_in(tmp_path, "models", "--help").stdout != ""


# `cts runs` alone lists the runs.
@pytest.mark.parametrize("group", [path for path in GROUPS if path != "runs"])
def test_group_without_command_prints_help_and_exits_2(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["cts", *group.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, told = capsys.readouterr()
    assert (out, told.split()) == ("", help_of(group).split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "cts: No such command 'rnu'. Did you mean 'run'? (see cts --help)"),
        (["run", "--modle", "gpt"], "cts: No such option: --modle"),
        (["run", "--max-calls", "many"], "cts: Invalid value for '--max-calls'"),
        (["run", "--max-outage", "-1"], "cts: Invalid value for '--max-outage'"),
        (["judge", "--max-outage", "nan"], "cts: Invalid value for '--max-outage'"),
        (["judge", "--gold"], "cts: Option '--gold' requires an argument."),
    ],
)
def test_unknown_word_is_one_line_with_pointer_to_help(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    line = refused(tmp_path, *arguments)
    assert line.startswith(said)
    assert line.rstrip().endswith("--help)")


# The background job of a shell, which a test run may be, begins with SIGINT ignored.
READING = """
import signal, time
from cts_async.__main__ import start
from cts_async.protocol import rejudge

signal.signal(signal.SIGINT, signal.default_int_handler)

def reading(*asked, **options):
    print("reading", flush=True)
    time.sleep(60)

rejudge.read_gold = reading
start()
"""


def test_ctrl_c_while_reading_input_is_exit_75(tmp_path: Path) -> None:
    jsonl(tmp_path / "gold.jsonl", {"id": "q1", "gold": {"nuggets": [NUGGET]}})
    jsonl(tmp_path / "answers.jsonl", {"id": "q1", "answer": "at nine"})
    command = [sys.executable, "-c", READING, "judge", "--judge", "lexical"]
    command += ["--gold", "gold.jsonl", "--candidates", "answers.jsonl", "--out", "out"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": OURS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 75
    assert said == "cts: interrupted; the same command resumes\n"
    assert not (tmp_path / "out").exists()


def test_ctrl_c_message_promises_resume_only_for_resumable_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cts_async.neighbours.qulac.collection.read_qulac", stop)
    monkeypatch.setattr(sys, "argv", ["cts", "data", "qulac", "figures", "qulac.json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 75
    assert capsys.readouterr().err == "cts: interrupted; the same command starts again\n"


RUN = "run --data queries.csv --corpus corpus.jsonl"
REFUSED: dict[str, tuple[str, ...]] = {
    # keys and models
    "run --model gpt -k 3": (
        *("OPENAI_API_KEY", "QIANFAN_API_KEY", "WEBDANCER_BASE_URL", "--all baseline", "--judge"),
    ),
    "gold --out made.jsonl": ("QIANFAN_API_KEY (extractor: ernie)", "without any key: --all local"),
    "run --model gpt --scheme at-cot": ("OPENAI_API_KEY", "without any key: --all local"),
    "run --model deepsek": ("'deepsek'", "did you mean 'deepseek'?"),
    "run --judge nobody": ("'nobody'",),
    "judge --gold gold.jsonl --candidates answers.jsonl": (
        "cts: --out is missing: ",
        "--candidates C --out DIR",
    ),
    "judge --out judged": ("cts: --gold and --candidates are missing: ",),
    "models gtp": ("cts: unknown model 'gtp'; did you mean 'gpt'?",),
    "models ERNIE-4.5-Turbo-128K": ("did you mean 'ernie', whose id that is?",),
    **{
        f"plan {role} ''": ("cts: unknown model ''; known: ",)
        for role in ("--all", "--agent", "--judge", "-m")
    },
    # data and gold
    "run --data nowhere/queries.csv": ("nowhere/queries.csv",),
    "run --data wiki:x": ("hard518", "qulac"),
    "run --data release": ("did you mean 'hard518:release'?",),
    "run --data qulak:x.json": ("did you mean 'qulac:x.json'?",),
    "run --data qulac:qulac.json --no-judge": ("--corpus",),
    "run --data queries.csv --no-judge --corpus none.jsonl": ("none.jsonl",),
    "run --field fused_query": ("OURS=THEIRS",),
    RUN: ("--gold", "--no-judge", "q1"),
    f"{RUN} --gold torn.jsonl": ("torn.jsonl:3:",),
    f"{RUN} --gold heavy.jsonl": ("heavy.jsonl:3: field 'gold.nuggets[0].weight'",),
    # options
    "run --config other.toml": ("other.toml: no such file",),
    **{
        f"{command} {options}": (part,)
        for command in ("run", "judge")
        for options, part in {
            "--deadline soon": "--deadline soon: write it as 90m",
            "--deadline 2001-01-01T08:00": "is in the past",
            "--max-usd inf": "--max-usd inf",
        }.items()
    },
    "run -k 4": ("cts: -k must be 1, 2 or 3 (the paper's range) (see cts run --help)\n",),
    "run -k three": ("cts: -k must be 1, 2 or 3 (the paper's range) (see",),
    "run --all local --scheme at-coz": ("cts: --scheme at-coz: must be one of cts, standard",),
    "run --all local --mode select": (
        "cts: --mode select: the default scheme cts supports only at-once; add --scheme",
    ),
    **{
        f"{command} --all local --name '{name}'": (
            f"cts: --name {name}: must be the name of a single folder; use --runs-dir for its location\n",
        )
        for command in ("run", "gold --out g.jsonl")
        for name in ("../elsewhere", "a/b", "..", "/tmp/x", " ")
    },
    # judge, score, audit
    "judge": ("--candidates",),
    "judge nowhere --judge lexical": ("not a run directory",),
    "judge --gold_a gold.jsonl --gold_b answers.jsonl --out_dir out": ("QIANFAN_API_KEY", "--judge NAME"),
    "judge corpus.jsonl --judge lexical": ("cts: corpus.jsonl: not a run directory: run.json not found\n",),
    "audit corpus.jsonl": ("cts: corpus.jsonl: not a run directory: run.json not found\n",),
    "score nowhere.jsonl": ("cts: nowhere.jsonl: No such file or directory\n",),
    "score broken.jsonl": ("cts: broken.jsonl:1: not valid JSON\n",),
    "score --jsn broken.jsonl": ("No such option: --jsn",),
    "score": ("(see cts score --help)",),
}
"""What is typed after `cts`, and parts of the line that refuses it."""


@pytest.mark.parametrize("typed", REFUSED)
def test_mistake_is_refused_in_one_line(world: Path, typed: str) -> None:
    said = refused(world, *shlex.split(typed))
    for part in REFUSED[typed]:
        assert part in said
    assert "--support" not in said or typed.startswith("run")


def test_blank_key_counts_as_missing(tmp_path: Path) -> None:
    done = cts_in(tmp_path, "run", "--model", "gpt", "--all", "gpt", OPENAI_API_KEY=" ")
    assert (done.returncode, "OPENAI_API_KEY" in done.stderr) == (2, True)


def test_judge_on_judged_candidates_suggests_their_command(world: Path) -> None:
    command = "cts judge --gold gold.jsonl --candidates answers.jsonl --judge lexical --out judged"
    assert cts_in(world, *command.split()[1:]).returncode == 0
    (world / "cts.toml").write_text('[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m-1"\n')
    said = refused(world, "judge", "judged", "--judge", "m")
    assert said.startswith("cts: judged: holds candidates judged by cts judge, not a run; for another judge")
    assert said.rstrip().endswith(f"one more --judge: {command}")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nrequest_per_min = 3',
            ["cts.toml:4:", "did you mean 'requests_per_min'?"],
        ),
        ('[models.gpt]\napi_key = "sk-very-secret"\n', ["cts.toml:2:"]),
    ],
)
def test_mistake_in_cts_toml_is_named_by_its_line(tmp_path: Path, table: str, said: list[str]) -> None:
    (tmp_path / "cts.toml").write_text(table)
    line = refused(tmp_path, "run")
    assert all(part in line for part in said)
    assert "sk-very-secret" not in line


def test_score_ignores_broken_run_json(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"torn')
    judged = jsonl(tmp_path / "results.jsonl", {"id": "q1", "nuggets": [{**NUGGET, "coverage": "full"}]})
    done = cts_in(tmp_path, "score", judged)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split()[-1] == judged


def test_doctor_prints_no_keys_and_names_missing_ones(tmp_path: Path) -> None:
    config = '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nkey_env = "MY_KEY"\n'
    (tmp_path / "cts.toml").write_text(config)
    done = cts_in(tmp_path, "doctor", "--json", MY_KEY="sk-very-secret")
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert "sk-very-secret" not in done.stdout + done.stderr
    assert "key is set" in found["model mine"]["text"]
    assert found["model mine"]["ok"] is None  # nothing listens there
    assert "OPENAI_API_KEY is not set" in found["model gpt"]["text"]


def test_candidates_expanded_by_the_shell_are_accepted(world: Path) -> None:
    a, b = (jsonl(world / f"{name}.jsonl", {"id": "q1", "answer": f"at nine, {name}"}) for name in "ab")
    words = ("judge", "--gold", "gold.jsonl", "--out", "out", "--judge", "lexical", "--json", "-q")
    by_shell = cts_in(world, *words, "--candidates", a, b)
    assert (by_shell.returncode, by_shell.stderr) == (0, "")
    assert [summary["system"] for summary in json.loads(by_shell.stdout)] == ["a", "b"]
    assert cts_in(world, *words, "--candidates", "[ab].jsonl").returncode == 0, "the same command resumes"


def test_file_in_place_of_the_folder_of_runs_is_refused(world: Path) -> None:
    given = ("--all", "local", "--data", "queries.csv", "--corpus", "corpus.jsonl", "--no-judge")
    done = cts_in(world, "run", *given, "--runs-dir", "corpus.jsonl", "-q")
    problem = "cts: corpus.jsonl/queries-orig+agent-local: cannot write there (Not a directory)\n"
    assert (done.returncode, done.stderr) == (2, problem)
