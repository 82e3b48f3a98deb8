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
from typed_commands import cts_in
from typer.testing import CliRunner

import cts_async
from cts_async.cli.main import app, main
from cts_async.cli.options import HEADINGS

OURS = str(Path(cts_async.__file__).parents[1])
"""Where the package under test is, whatever is installed."""
COMMANDS = (
    *(
        "run",
        "plan",
        "converse",
        "gold",
        "judge",
        "score",
        "status",
        "diagnose",
        "compare",
        "report",
        "audit",
        "models",
        "doctor",
        "view",
    ),
    *("corpus show", "corpus search", "corpus build"),
    *("data list", "data show", "data validate", "data convert"),
    *("data qulac figures", "data qulac conversations", "data qulac gains", "data qulac retrieve"),
    *("data clariq figures", "data clariq questions", "data clariq documents", "data clariq need"),
    *("data mimics-duo tables", "data mimics-duo panes", "data mimics-duo rerank", "data mimics-duo ltr"),
)
GROUPED = ("run", "plan", "gold", "judge", "converse")
GROUPS = ("", "corpus", "data", "data qulac", "data clariq", "data mimics-duo")
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
def queries(tmp_path: Path) -> str:
    (tmp_path / "queries.csv").write_text("id,fused_query,blurred_query\nq1,winter ferry times,ferry\n")
    return "queries.csv"


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    line = {"id": "d1", "url": "https://a.example/1", "title": "Ferry", "text": "The ferry leaves at nine."}
    return jsonl(tmp_path / "corpus.jsonl", line)


def help_of(command: str) -> str:
    """The help of a command, on a terminal of 80 columns."""
    asked = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80"}, prog_name="cts")
    assert asked.exit_code == 0
    return asked.stdout


def test_command_list_is_complete() -> None:
    def leaves(found: Any, path: str) -> Iterator[str]:
        for name, one in found.commands.items():
            yield from leaves(one, f"{path}{name} ") if hasattr(one, "commands") else [path + name]

    assert set(leaves(typer.main.get_command(app), "")) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_fits_80_columns(command: str) -> None:
    said = help_of(command)
    assert f"Example: cts {command} " in " ".join(said.split()) + " "
    assert max(map(len, said.splitlines())) <= 80
    options = [line for line in said.splitlines() if line.startswith("  -")]
    assert not any("list[" in line for line in options), "what to give, not what Python makes of it"
    if command in GROUPED:
        headings = re.findall(r"^([A-Z][a-z ]+):$", said, re.MULTILINE)
        assert [one for one in headings if one != "Arguments"] == [one for one in HEADINGS if one in headings]
        assert said.count("\n  -h, --help ") == said.count("\n  --config ") == said.count("\n  --seed ") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_in_help_parse(command: str) -> None:
    found: Any = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]
    paragraphs = (" ".join(text.split()) for text in found.help.split("\n\n"))
    typed = [text.partition(f": cts {command} ")[2] for text in paragraphs if f": cts {command} " in text]
    for words in typed:
        found.make_context(command, shlex.split(words.partition(" > ")[0]))  # refuses what it does not know


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


@pytest.mark.parametrize("group", GROUPS)
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


READING = """
import time
from cts_async.cli.start import start
from cts_async.protocol import judge_plan

def reading(*asked, **options):
    print("reading", flush=True)
    time.sleep(60)

judge_plan.read_gold = reading
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


def test_version(tmp_path: Path) -> None:
    from cts_async import __version__

    assert cts_in(tmp_path, "--version").stdout == f"cts {__version__}\n"


def test_missing_keys_are_named_together_with_alternatives(tmp_path: Path) -> None:
    said = refused(tmp_path, "run", "--model", "gpt", "-k", "3")
    for wanted in ("OPENAI_API_KEY", "QIANFAN_API_KEY", "WEBDANCER_BASE_URL", "--all local", "--judge"):
        assert wanted in said


def test_blank_key_counts_as_missing(tmp_path: Path) -> None:
    done = cts_in(tmp_path, "run", "--model", "gpt", "--all", "gpt", OPENAI_API_KEY=" ")
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr


def test_unknown_model_suggests_closest_name(tmp_path: Path) -> None:
    said = refused(tmp_path, "run", "--model", "deepsek")
    assert "'deepsek'" in said
    assert "did you mean 'deepseek'?" in said


@pytest.mark.parametrize("role", ["--all", "--support", "--agent", "--judge", "--model"])
def test_empty_model_name_is_refused(role: str, tmp_path: Path) -> None:
    assert refused(tmp_path, "plan", role, "").startswith("cts: unknown model ''; known: ")


def test_unknown_judge_is_refused(tmp_path: Path) -> None:
    assert "'nobody'" in refused(tmp_path, "run", "--judge", "nobody")


def test_missing_data_file_is_named(tmp_path: Path) -> None:
    assert "nowhere/queries.csv" in refused(tmp_path, "run", "--data", "nowhere/queries.csv")


def test_unknown_dataset_lists_known_ones(tmp_path: Path) -> None:
    said = refused(tmp_path, "run", "--data", "wiki:x")
    assert "hard518" in said
    assert "qulac" in said


def test_broken_json_in_gold_names_the_line(queries: str, corpus: str, tmp_path: Path) -> None:
    good = [{"id": f"q{i}", "gold": {"nuggets": [NUGGET]}} for i in (1, 2)]
    jsonl(tmp_path / "gold.jsonl", *good, '{"id": "q3", "gold": {\n')
    said = refused(tmp_path, "run", "--data", queries, "--gold", "gold.jsonl", "--corpus", corpus)
    assert "gold.jsonl:3:" in said


def test_invalid_gold_field_names_line_and_field(queries: str, corpus: str, tmp_path: Path) -> None:
    good = [{"id": f"q{i}", "gold": {"nuggets": [NUGGET]}} for i in (1, 2)]
    bad = {"id": "q3", "gold": {"nuggets": [{**NUGGET, "weight": "heavy"}]}}
    jsonl(tmp_path / "gold.jsonl", *good, bad)
    said = refused(tmp_path, "run", "--data", queries, "--gold", "gold.jsonl", "--corpus", corpus)
    assert "gold.jsonl:3: field 'gold.nuggets[0].weight'" in said


def test_judge_on_judged_candidates_suggests_their_command(tmp_path: Path) -> None:
    jsonl(tmp_path / "gold.jsonl", {"id": "q1", "gold": {"nuggets": [NUGGET]}})
    jsonl(tmp_path / "answers.jsonl", {"id": "q1", "answer": "at nine"})
    command = "cts judge --gold gold.jsonl --candidates answers.jsonl --judge lexical --out judged"
    assert cts_in(tmp_path, *command.split()[1:]).returncode == 0
    (tmp_path / "cts.toml").write_text('[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m-1"\n')
    said = refused(tmp_path, "judge", "judged", "--judge", "m")
    assert said.startswith("cts: judged: holds candidates judged by cts judge, not a run; for another judge")
    assert said.rstrip().endswith(f"one more --judge: {command}")


def test_qulac_without_corpus_is_refused(tmp_path: Path) -> None:
    columns = {"topic_facet_id": {"0": "1-1"}, "topic": {"0": "ferry"}, "facet_desc": {"0": "winter ferry"}}
    (tmp_path / "qulac.json").write_text(json.dumps(columns))
    assert "--corpus" in refused(tmp_path, "run", "--data", "qulac:qulac.json", "--no-judge")


def test_missing_corpus_is_named(queries: str, tmp_path: Path) -> None:
    said = refused(tmp_path, "run", "--data", queries, "--no-judge", "--corpus", "none.jsonl")
    assert "none.jsonl" in said


def test_run_without_gold_suggests_no_judge(queries: str, corpus: str, tmp_path: Path) -> None:
    said = refused(tmp_path, "run", "--data", queries, "--corpus", corpus)
    assert "--gold" in said
    assert "--no-judge" in said
    assert "q1" in said


def test_unknown_field_in_cts_toml_names_line_and_suggestion(tmp_path: Path) -> None:
    lines = ["[models.mine]", 'base_url = "http://127.0.0.1:9/v1"', 'model = "m"', "request_per_min = 3"]
    (tmp_path / "cts.toml").write_text("\n".join(lines))
    said = refused(tmp_path, "run")
    assert "cts.toml:4:" in said
    assert "did you mean 'requests_per_min'?" in said


def test_api_key_in_cts_toml_is_refused_without_repeating_it(tmp_path: Path) -> None:
    (tmp_path / "cts.toml").write_text('[models.gpt]\napi_key = "sk-very-secret"\n')
    said = refused(tmp_path, "run")
    assert "cts.toml:2:" in said
    assert "sk-very-secret" not in said


def test_missing_config_file_is_named(tmp_path: Path) -> None:
    assert "other.toml: no such file" in refused(tmp_path, "run", "--config", "other.toml")


def test_field_mapping_without_equals_sign_is_refused(tmp_path: Path) -> None:
    assert "OURS=THEIRS" in refused(tmp_path, "run", "--field", "fused_query")


@pytest.mark.parametrize("k", ["4", "0", "three"])
def test_k_outside_1_to_3_is_refused(k: str, tmp_path: Path) -> None:
    done = cts_in(tmp_path, "run", "-k", k)
    assert done.returncode == 2
    assert "'-k'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scheme", "at-coz"], "cts: --scheme at-coz: must be one of cts, standard"),
        (
            ["--mode", "select"],
            "cts: --mode select: the benchmark's own scheme asks at once only; add --scheme",
        ),
    ],
)
def test_incompatible_scheme_and_mode_are_refused(options: list[str], said: str, tmp_path: Path) -> None:
    assert refused(tmp_path, "run", "--all", "local", *options).startswith(said)


def test_judge_without_input_is_refused(tmp_path: Path) -> None:
    assert "--candidates" in refused(tmp_path, "judge")
    assert "not a run directory" in refused(tmp_path, "judge", "nowhere", "--judge", "lexical")


def test_score_of_missing_file_names_it(tmp_path: Path) -> None:
    assert refused(tmp_path, "score", "nowhere.jsonl") == "cts: nowhere.jsonl: No such file or directory\n"


def test_score_errors_have_the_common_form(tmp_path: Path) -> None:
    broken = jsonl(tmp_path / "broken.jsonl", '{"id":\n')
    assert refused(tmp_path, "score", broken) == "cts: broken.jsonl:1: not valid JSON\n"
    assert "No such option: --jsn" in refused(tmp_path, "score", "--jsn", broken)
    assert "(see cts score --help)" in refused(tmp_path, "score")
    assert "--gold" in cts_in(tmp_path, "score", "--help").stdout.split("Options:")[1]


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


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", "..", "/tmp/x", " "])
def test_run_name_must_be_a_single_folder(tmp_path: Path, name: str) -> None:
    for command in (("run",), ("gold", "--out", "g.jsonl")):
        said = refused(tmp_path, *command, "--all", "local", "--name", name)
        assert (
            said
            == f"cts: --name {name}: must be the name of a single folder; use --runs-dir for its location\n"
        )


def test_model_id_and_bare_folder_get_suggestions(tmp_path: Path) -> None:
    said = refused(tmp_path, "models", "ERNIE-4.5-Turbo-128K")
    assert "did you mean 'ernie', whose id that is?" in said
    (tmp_path / "release").mkdir()
    assert "did you mean 'hard518:release'?" in refused(tmp_path, "run", "--data", "release")
    assert "did you mean 'qulac:x.json'?" in refused(tmp_path, "run", "--data", "qulak:x.json")


def test_judge_without_key_names_judge_options_only(tmp_path: Path) -> None:
    gold = jsonl(tmp_path / "gold.jsonl", {"id": "q1", "nuggets": [NUGGET]})
    answers = jsonl(tmp_path / "answers.jsonl", {"id": "q1", "answer": "at nine"})
    said = refused(tmp_path, "judge", "--gold_a", gold, "--gold_b", answers, "--out_dir", "out")
    assert "QIANFAN_API_KEY" in said
    assert "--judge NAME" in said
    assert "--support" not in said


def test_candidates_expanded_by_the_shell_are_accepted(tmp_path: Path) -> None:
    gold = jsonl(tmp_path / "gold.jsonl", {"id": "q1", "nuggets": [NUGGET]})
    a, b = (jsonl(tmp_path / f"{name}.jsonl", {"id": "q1", "answer": f"at nine, {name}"}) for name in "ab")
    words = ("judge", "--gold", gold, "--out", "out", "--judge", "lexical", "--json", "-q")
    by_shell = cts_in(tmp_path, *words, "--candidates", a, b)
    assert (by_shell.returncode, by_shell.stderr) == (0, "")
    assert [summary["system"] for summary in json.loads(by_shell.stdout)] == ["a", "b"]
    assert cts_in(tmp_path, *words, "--candidates", "[ab].jsonl").returncode == 0, "the same command resumes"


def test_file_instead_of_run_directory_is_refused(queries: str, corpus: str, tmp_path: Path) -> None:
    assert (
        refused(tmp_path, "judge", corpus, "--judge", "lexical")
        == f"cts: {corpus}: not a run directory: run.json not found\n"
    )
    assert refused(tmp_path, "audit", corpus) == f"cts: {corpus}: not a run directory: run.json not found\n"
    given = ("--all", "local", "--data", queries, "--corpus", corpus, "--no-judge")
    done = cts_in(tmp_path, "run", *given, "--runs-dir", corpus, "-q")
    assert (done.returncode, done.stderr) == (
        2,
        f"cts: {corpus}/queries-orig+agent-local: cannot write there (Not a directory)\n",
    )
