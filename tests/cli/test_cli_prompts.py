"""Prompts of a user's: `cts prompts`, and `--prompts` of the commands that call models, against a provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_clone import SEARCH_LINE, VISIT_LINE, make_clone
from fake_provider import Remote, provider_process
from typed_commands import Cts

import cts_async
from cts_async.errors import write_error
from cts_async.protocol.prompts import load_prompts
from cts_async.safe_files import replace_file

SHIPPED = load_prompts()
ROLES = ("--support", "fake", "--agent", "fake", "--judge", "fake", "--limit", 2)
RUN = ("run", "-m", "fake", "-m", "fake@short", "--prompts", "short=short", *ROLES, "--no-orig", "-q")
FAKE = "fake-k1+all-fake"
SHORT = "fake-k1@short+all-fake"
MARK = "Ask in few words."


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Remote]:
    """A provider that keeps what it is asked, a cts.toml that names it, and a folder with a Clarifier's prompt."""
    with provider_process(keep=True) as remote:
        (tmp_path / "cts.toml").write_text(f'[models.fake]\nbase_url = "{remote.url}"\nmodel = "fake-1"\n')
        write(tmp_path / "short", "clarify", MARK)
        yield remote


def write(folder: Path, role: str, mark: str) -> None:
    """Write a role's shipped prompts with a sentence of our own in them."""
    folder.mkdir(exist_ok=True)
    for language in ("en", "zh"):
        text = SHIPPED.text(f"{role}.{language}").replace("## system\n", f"## system\n{mark}\n")
        (folder / f"{role}.{language}.txt").write_text(text)


def asked(provider: Remote, mark: str) -> list[str]:
    """The roles of the requests that have a sentence in them."""
    return [seen.role for seen in provider.seen() if mark in json.dumps(seen.messages)]


def manifest(run: str) -> Any:
    return json.loads(Path("runs", run, "run.json").read_text())


def test_variants_of_the_clarifier_s_prompt_run_side_by_side(cts: Cts, provider: Remote) -> None:
    done = cts(*RUN, "--json")
    assert done.code == 0, done.err
    assert [row["system"] for row in json.loads(done.out)] == ["fake-k1", "fake-k1@short"]
    assert asked(provider, MARK) == ["clarify", "clarify"]
    ours, theirs = manifest(f"sample-{SHORT}"), manifest(f"sample-{FAKE}")
    assert ours["players"]["clarifier"] == "fake@short"
    assert ours["identity"]["models"] == theirs["identity"]["models"]
    assert "clarify.en@short" in ours["identity"]["prompts"]
    assert "clarify.en" not in ours["identity"]["prompts"]
    assert ours["identity"]["prompts"]["rewrite.en"] == theirs["identity"]["prompts"]["rewrite.en"]
    assert MARK in Path("runs", f"sample-{SHORT}", "prompts", "clarify.en@short.txt").read_text()
    rows = json.loads(cts("compare", "runs", "--json").out)["systems"]
    assert [(row["system"], row["clarifier"], row["k"]) for row in rows] == [
        ("fake-k1", "fake", 1),
        ("fake-k1@short", "fake@short", 1),
    ]

    n = len(provider.seen())
    assert cts(*RUN).code == 0
    assert len(provider.seen()) == n, "the same command resumes, and asks nothing again"
    assert cts("audit", "runs").code == 0
    copy = Path("runs", f"sample-{SHORT}", "prompts", "clarify.en@short.txt")
    copy.write_text(copy.read_text() + "x")
    audited = cts("audit", "runs")
    assert audited.code == 1
    assert "prompts/clarify.en@short.txt" in audited.out


def test_changed_prompt_makes_a_version(cts: Cts, provider: Remote) -> None:
    assert cts(*RUN).code == 0
    n = len(provider.seen())
    write(Path("short"), "clarify", "Ask politely.")
    done = cts(*[word for word in RUN if word != "-q"])
    assert done.code == 0
    assert (
        f"sample-{SHORT}.v2: settings changed: prompt clarify.en@short, prompt clarify.zh@short; version 2"
        in done.err
    )
    # Both prompts ask the same questions here: nothing follows from the new ones.
    assert {request.role for request in provider.seen()[n:]} == {"clarify"}


def test_prompts_of_a_whole_run_mark_its_name_where_they_matter(cts: Cts, provider: Remote) -> None:
    done = cts("run", "-m", "fake", "--prompts", "short", *ROLES, "-q", "--workers", 2)
    assert done.code == 0, done.err
    names = {path.name for path in Path("runs").iterdir()}
    assert names == {"sample-orig+all-fake", f"sample-{FAKE}+prompts-short"}
    assert asked(provider, MARK) == ["clarify", "clarify"]
    assert "clarify.en" in manifest(f"sample-{FAKE}+prompts-short")["identity"]["prompts"]


def test_judge_with_a_prompt_of_its_own_is_another_judge(cts: Cts, provider: Remote) -> None:
    strict = "Judge strictly."
    write(Path("strict"), "judge", strict)
    given = ("--prompts", "strict=strict")
    done = cts("run", "-m", "fake", *ROLES, "--judge", "fake@strict", *given, "--no-orig", "-q")
    assert done.code == 0, done.err
    assert asked(provider, strict) == ["judge", "judge"]
    (run,) = Path("runs").iterdir()
    assert len((run / "judgments" / "fake@strict.jsonl").read_bytes().splitlines()) == 2
    assert {"judge.en", "judge.en@strict"} <= manifest(run.name)["identity"]["prompts"].keys()

    judge = ("judge", run, "--judge", "fake@strict", *given, "-q")
    assert cts(*judge).code == 0
    assert len(asked(provider, strict)) == 2, "the run has its verdicts"
    assert cts("judge", run, "--judge", "fake@other", "--prompts", "other=strict", "-q").code == 0
    assert (run / "judgments" / "fake@other.jsonl").is_file()
    write(Path("strict"), "judge", "Judge mildly.")
    done = cts(*judge)
    assert done.code == 2
    assert (
        "has verdicts by another fake@strict, a judge of the run itself: prompts.judge.en@strict was"
        in done.err
    )


def test_candidates_are_judged_by_the_prompts_that_were_named(cts: Cts, provider: Remote) -> None:
    gold = {"id": "a", "fused_query": "q", "gold": {"nuggets": [{"id": "N1", "text": "t", "weight": 1}]}}
    Path("g.jsonl").write_text(json.dumps(gold) + "\n")
    Path("c.jsonl").write_text('{"id": "a", "answer": "x"}\n')
    write(Path("strict"), "judge", MARK)
    words = ("judge", "--gold", "g.jsonl", "--candidates", "c.jsonl", "--out", "judged", "-q")
    assert cts(*words, "--judge", "fake@strict", "--prompts", "strict=strict").code == 0
    assert asked(provider, MARK) == ["judge"]
    identity = json.loads(Path("judged/run.json").read_text())["identity"]
    assert sorted(identity["prompts"]) == ["judge.en@strict", "judge.zh@strict"]
    done = cts(*words, "--judge", "fake@strict", "--prompts", "strict=short")
    assert done.err == ("cts: short: changes clarify.en, clarify.zh, but a judge uses judge.en, judge.zh\n")


def test_plan_forecasts_with_the_variant_s_prompts(cts: Cts, provider: Remote) -> None:
    long = "word " * 2000  # 10,000 bytes more at 0.25 tokens a byte
    write(Path("short"), "clarify", long)
    done = cts("plan", *RUN[1:-1], "--json")
    assert done.code == 0, done.err
    each = {
        (row["system"], row["step"]): row["input_tokens"] / row["calls"]
        for row in json.loads(done.out)["steps"]
    }
    assert each["fake-k1@short", "clarify"] - each["fake-k1", "clarify"] == pytest.approx(2500, abs=2)
    assert each["fake-k1@short", "rewrite"] == each["fake-k1", "rewrite"]


def test_conversations_take_variants_too(cts: Cts, provider: Remote) -> None:
    write(Path("kind"), "at_cot", MARK)
    words = ("--scheme", "at-cot", "--mode", "at-once", "--topics", 1, "--prompts", "kind=kind", "-q")
    assert cts("converse", "-m", "fake", "-m", "fake@kind", *words).code == 0
    assert asked(provider, MARK) == ["clarify_turn"]
    assert {path.name for path in Path("runs").iterdir()} == {
        "sample-talk-fake-at-cot-k5",
        "sample-talk-fake-at-cot-k5@kind",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("-m", "fake@shrot"),
            "'fake@shrot': no prompts are called 'shrot' (--prompts shrot=DIR, or [prompts]",
        ),
        (("-m", "fake", "--prompts", "short=short"), "--prompts short=...: nobody uses them; name them"),
        (("-m", "fake", "--prompts", "nowhere"), "nowhere: no such folder"),
        (
            ("-m", "fake@strict", "--prompts", "strict=strict"),
            "strict: changes judge.en, judge.zh, but fake@strict",
        ),
        (
            ("-m", "fake", "--no-judge", "--prompts", "strict"),
            "strict: changes judge.en, judge.zh, but this run",
        ),
        (
            ("-m", "fake@same", "--prompts", "same=same"),
            "same: changes no prompt, but fake@same uses clarify.en",
        ),
        (("-m", "baseline@short", "--prompts", "short=short"), "unknown model 'baseline'"),
    ],
)
def test_prompts_that_cannot_mean_anything_are_refused(
    cts: Cts, provider: Remote, words: tuple[str, ...], said: str
) -> None:
    write(Path("strict"), "judge", MARK)
    assert cts("prompts", "copy", "same").code == 0
    done = cts("run", *words, *ROLES, "-q")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert provider.seen() == []
    assert not Path("runs").exists()


def test_prompts_of_cts_toml_are_used_where_their_name_is_typed(cts: Cts, provider: Remote) -> None:
    with Path("cts.toml").open("a") as file:
        file.write('[prompts]\nshort = "short"\nbroken = "broken"\n')
    Path("broken").mkdir()
    done = cts("run", "-m", "fake@short", *ROLES, "--no-orig", "-q")
    assert done.code == 0, done.err
    assert asked(provider, MARK) == ["clarify", "clarify"]


def test_one_folder_of_prompts_is_enough_from_python(cts: Cts, provider: Remote) -> None:
    config: dict[str, Any] = {
        "every_role": "fake",
        "config_file": Path("cts.toml"),
        "references": (),
        "limit": 2,
    }
    run = cts_async.run("fake@short", prompts="short=short", quiet=True, **config)
    assert [path.name for path in run.paths] == [f"sample-{SHORT}"]
    assert asked(provider, MARK) == ["clarify", "clarify"]
    write(Path("judging"), "judge", MARK)
    cts_async.judge(run.paths, "fake@own", prompts="own=judging", quiet=True, config_file=Path("cts.toml"))
    assert asked(provider, MARK)[2:] == ["judge", "judge"]


# --- cts prompts


def test_prompts_are_listed_with_their_source(cts: Cts, provider: Remote) -> None:
    done = cts("prompts", "list", "--prompts", "short=short", "--json")
    rows = {row["name"]: row for row in json.loads(done.out)["prompts"]}
    assert rows.keys() == {*SHIPPED.prompts, "clarify.en@short", "clarify.zh@short"}
    assert rows["judge.zh"] == {
        "name": "judge.zh",
        "language": "zh",
        "variant": None,
        "sha256": SHIPPED.sha256["judge.zh"],
        "source": "shipped",
    }
    assert (rows["clarify.zh@short"]["variant"], rows["clarify.zh@short"]["source"]) == (
        "short",
        "short/clarify.zh.txt",
    )
    assert rows["clarify.zh@short"]["sha256"][:12] in cts("prompts", "list", "--prompts", "short=short").out


def test_one_prompt_is_shown(cts: Cts) -> None:
    assert cts("prompts", "show", "judge.zh").out == SHIPPED.text("judge.zh")
    row = json.loads(cts("prompts", "show", "judge.zh", "--json").out)
    assert (row["text"], row["fields"]) == (
        SHIPPED.text("judge.zh"),
        ["candidate_answer", "nuggets", "query"],
    )
    done = cts("prompts", "show", "juge.zh")
    assert (done.code, done.err) == (
        2,
        "cts: no prompt 'juge.zh'; did you mean 'judge.zh'? (see cts prompts list)\n",
    )


def test_copied_prompts_are_in_order_and_never_overwrite(cts: Cts) -> None:
    assert cts("prompts", "copy", "mine/short", "clarify", "at-cot").code == 0
    names = ["at_cot.en.txt", "at_cot.zh.txt", "clarify.en.txt", "clarify.zh.txt"]
    assert sorted(path.name for path in Path("mine/short").iterdir()) == names
    done = cts("prompts", "check", "mine/short")
    assert (done.code, done.err) == (0, "")
    Path("mine/short/at_cot.en.txt").unlink()
    done = cts("prompts", "copy", "mine/short", "clarify", "at-cot")
    assert (done.code, done.err) == (
        2,
        "cts: mine/short/at_cot.zh.txt: exists already; nothing was copied\n",
    )
    assert not Path("mine/short/at_cot.en.txt").exists()


def test_copy_on_a_full_disk_leaves_nothing_and_is_repeated(
    cts: Cts, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = replace_file

    def full(path: Path, content: bytes) -> None:
        if path.name == "clarify.zh.txt":
            raise write_error(path, OSError(28, "No space left on device"))
        whole(path, content)

    with monkeypatch.context() as patched:
        patched.setattr("cts_async.safe_files.replace_file", full)
        done = cts("prompts", "copy", "mine", "clarify")
    assert done.code == 75
    assert "make room and type the same command again" in done.err
    assert not list(Path("mine").iterdir())
    assert cts("prompts", "copy", "mine", "clarify").code == 0


def test_check_names_every_mistake_and_what_may_not_be_meant(cts: Cts) -> None:
    assert cts("prompts", "copy", "mine", "clarify", "rewrite").code == 0
    path = Path("mine/clarify.en.txt")
    path.write_text(path.read_text().replace("{blurred_query}", "{query}"))
    path = Path("mine/rewrite.en.txt")
    path.write_text(path.read_text().replace("<qa_pairs>\n", "<qa_pairs>\nThey say: "))
    Path("mine/answr.en.txt").write_text("")
    Path("mine/rewrite.zh.txt").unlink()
    done = cts("prompts", "check", "mine")
    assert done.code == 2
    notes = [line for line in done.err.splitlines() if line.startswith("note: ")]
    problems = [line for line in done.err.splitlines() if line.startswith("cts: ")]
    assert [line.split(": ")[1] for line in problems] == ["mine/answr.en.txt", "mine/clarify.en.txt:20"]
    assert "did you mean 'answer.en.txt'?" in problems[0]
    assert "unknown field query; clarify has {blurred_query}, {k}" in problems[1]
    assert any("mine/rewrite.en.txt: {qa_pairs} is not alone between" in note for note in notes)
    assert any("changes the prompt 'rewrite' in one language only" in note for note in notes)
    found = json.loads(cts("prompts", "check", "mine", "--json").out)
    assert [f"cts: {problem}" for problem in found["problems"]] == problems
    assert [row["name"] for row in found["prompts"]] == ["clarify.zh", "rewrite.en"]


def test_prompts_of_a_published_agent_are_imported_from_a_clone_and_used(cts: Cts, tmp_path: Path) -> None:
    make_clone(tmp_path / "clone")
    done = cts("prompts", "import", "tongyi", "clone")
    # The words of this clone are not those of the public repository.
    assert (done.code, Path("prompts").exists()) == (2, False)
    assert done.err.startswith(
        "cts: clone: differs from the version that this was written after: system (inference/prompt.py), extractor "
    )
    done = cts("prompts", "import", "tongyi", "clone", "--accept-changed")
    assert done.code == 0, done.err
    assert "note: not taken, as there are no such tools here: PythonInterpreter" in done.err
    assert "note: inference/prompt.py: the text 'system' differs from the version known here" in done.err
    assert done.out == (
        "4 texts of tongyi imported to prompts/tongyi; use them with: cts run --agent tongyi --prompts prompts/tongyi\n"
    )
    checked = cts("prompts", "check", "prompts/tongyi", "--json")
    assert (checked.code, json.loads(checked.out)["problems"]) == (0, [])
    shown = cts("prompts", "show", "agent.tongyi", "--prompts", "prompts/tongyi")
    assert f"<tools>\n{SEARCH_LINE}\n{VISIT_LINE}\n</tools>\n\nCurrent date: {{current_date}}" in shown.out
    again = cts("prompts", "import", "tongyi", "clone", "--accept-changed")
    assert again.code == 2
    assert again.err.startswith("cts: prompts/tongyi/agent.tongyi.txt: exists already; nothing was imported")
    done = cts("prompts", "import", "webdancer", "clone", "--accept-changed", "--out", "own/dancer")
    assert done.code == 0, done.err
    assert sorted(path.name for path in Path("own/dancer").iterdir()) == [
        "agent.native.txt",
        "imported.json",
        "tools.jsonl",
        "visit.en.txt",
        "visit.zh.txt",
    ]


def test_what_is_no_clone_is_said_in_one_line(cts: Cts, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    clone = make_clone(tmp_path / "clone")
    (clone / "inference/prompt.py").write_text("def f(:\n")
    repository = "https://github.com/Alibaba-NLP/DeepResearch"
    for words, problem in (
        (("webdancer", "none"), f"cts: none: no such folder: expected a clone of {repository}\n"),
        (("webdancer", "file"), f"cts: file: is no folder: expected a clone of {repository}\n"),
        (
            ("webdancer", "empty"),
            f"cts: empty: is no clone of {repository}: looked for "
            "WebAgent/WebDancer/demos/assistant_qwq_chat.py and WebDancer/demos/assistant_qwq_chat.py\n",
        ),
        (("tongyi", "clone"), "cts: clone/inference/prompt.py:1: is no Python file: invalid syntax\n"),
        (("tongy", "clone"), "cts: NAME tongy: must be one of webdancer, tongyi; did you mean tongyi?\n"),
    ):
        done = cts("prompts", "import", *words)
        assert (done.code, done.err) == (2, problem)
    assert not Path("prompts").exists()


def test_mistake_in_descriptions_of_tools_is_a_problem_of_the_folder(cts: Cts, tmp_path: Path) -> None:
    write(tmp_path / "own", "clarify", MARK)
    (tmp_path / "own/tools.jsonl").write_text("{}\n")
    done = cts("prompts", "check", "own")
    assert done.code == 2
    assert 'cts: own/tools.jsonl:1: expected a JSON object: {"type": "function"' in done.err
