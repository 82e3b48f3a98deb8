"""The campaign behind tests/golden: the commands that were typed, and what their models reply.

    python tests/golden_world.py FOLDER      writes what tests/golden holds as VERSION.tar.gz

Run it with the package of the version whose runs are to be kept (PYTHONPATH). Later versions are then held to read,
resume, report and repeat these runs. The models are deterministic and reply without a server, except for the runs on
Ray, whose workers reach a server on the loopback. The world is the first 14 instances of `known_world`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fake_roles
import known_world
from typer.testing import CliRunner, Result

from cts_async.cli.main import app
from cts_async.engine.events import Usage
from cts_async.errors import RejectedError
from cts_async.llm.apis import ChatRequest, Message, Reply
from cts_async.llm.model import Client

N = 14
PLAYS = {"alpha": "gpt", "beta": "kimi", "support": "ernie", "strict": "strict"}
"""Model names here, and whom they play in `known_world`."""
NOWHERE = "http://127.0.0.1:9"
DATA = ("--data", "hard518:queries.csv", "--gold", "gold.jsonl", "--corpus", "docs.jsonl", "-q")
ROLES = ("--support", "support", "--agent", "support", "--judge", "support")
DATE = ("--date", "2026-11-22")
RUN = ("run", "-m", "alpha", "-k", "1", "-k", "2", "-k", "3", "--gold-query", *ROLES, *DATA)
INTERRUPTED = ("run", "-m", "beta", "-k", "2", "--no-orig", *ROLES, *DATA)
FAILING, INVENTING = "topic005", "topic009"
"""What is refused by rewriter and extractor, and where the rewriter adds a year that nobody told it."""
TALK = "--mode respond --mode select"
CONVERSE = (
    "converse -m alpha --data talks.jsonl --corpus docs.jsonl --support support --scheme cot --scheme at-cot "
    f"{TALK} --turns 2 -q --json"
)
_DATA, _ROLES, _DATE = (" ".join(words) for words in (DATA, ROLES, DATE))
GOLD = (
    f"gold --agent support --extractor beta --data hard518:queries.csv --corpus docs.jsonl -q {_DATE} --json"
)
CLUSTER = f"run -m alpha -k 2 {_ROLES} {_DATA} {_DATE} --runs-dir cluster"

Commands = dict[str, tuple[str, int]]
"""By name: what is typed after `cts` (NAME stands for the name), and the exit code."""

MADE: Commands = {
    "run": (f"{' '.join(RUN)} {_DATE} --json", 1),
    "run-beta": (f"run -m beta -k 1 --no-orig {_ROLES} {_DATA} {_DATE} --json", 1),
    "run-talk": (f"run -m beta -k 2 --scheme at-cot {TALK} --no-orig {_ROLES} {_DATA} {_DATE} --json", 0),
    "judge-run": (
        "judge runs/hard518-orig+all-support runs/hard518-alpha-k2+all-support --judge strict -q --json",
        1,
    ),
    "judge-candidates": (
        "judge --gold gold.jsonl --candidates candidates.jsonl --candidates others.jsonl --out judged "
        "--judge support --judge strict --lexical -q --json",
        1,
    ),
    "gold": (f"{GOLD} --out GOLD.jsonl", 1),
    "converse": (f"{CONVERSE} --csv tables/NAME", 0),
    "run-qulac": (
        "run --data qulac:near/qulac.json --corpus docs.jsonl --answers qulac -q -m alpha --no-orig --no-judge "
        f"--support support --agent support {_DATE} --runs-dir near/runs --json",
        0,
    ),
}
"""Commands that make runs."""

HALF: Commands = {
    "run-half": (f"{' '.join(INTERRUPTED)} {_DATE} --runs-dir half --json", 1),
    "gold-half": (f"{GOLD} --out HALF.jsonl --runs-dir half", 1),
    "converse-half": (f"{CONVERSE} --runs-dir half", 0),
    "cluster-half": (f"{CLUSTER} --name half --no-orig --json", 0),
}
"""Commands whose runs were interrupted, and are finished by the same command. The last one ran with `--workers 2`."""

K2 = "runs/hard518-alpha-k2+all-support"
READ: Commands = {
    "compare": ("compare runs --json", 0),
    "compare-baseline": ("compare runs --json --baseline beta-k1 --judge support", 0),
    "compare-candidates": ("compare judged --json", 0),
    "compare-cluster": ("compare cluster --json", 0),
    "diagnose": ("diagnose runs/hard518-* --json --csv tables/NAME", 0),
    "report": ("report runs --tables tables/NAME --out report.html", 0),
    "report-talks": (
        "report runs/talks-* --corpus docs.jsonl --tables tables/NAME --out talks.html",
        0,
    ),
    "audit": ("audit runs cluster --json", 0),
    "score": ("score runs --json", 1),
    "score-judgments": (f"score {K2}/judgments/strict.jsonl judged --json", 1),
    "score-gold": (f"score {K2}/results.jsonl --gold gold.jsonl --json", 1),
    "status": ("status runs cluster half --once --json", 0),
    "plan-done": (f"plan {' '.join(RUN[1:-1])} {_DATE} --json", 0),
    "plan-half": (f"plan {' '.join(INTERRUPTED[1:-1])} {_DATE} --runs-dir half --json", 0),
    "plan-new": (f"plan -m beta -k 3 --scheme cot {TALK} {_DATA[:-3]} {_DATE} --json", 0),
    "models": ("models --json", 0),
    "data-list": ("data list --json", 0),
    "data-show": ("data show hard518:queries.csv --gold gold.jsonl --json", 0),
    "data-show-one": ("data show hard518:queries.csv --id q003 --json", 0),
    "data-show-qulac": ("data show qulac:near/qulac.json --json", 0),
    "data-show-clariq": ("data show clariq:near/clariq/dev.tsv --json", 0),
    "data-show-panes": ("data show mimics-duo:near/duo --json", 0),
    "validate": ("data validate hard518:queries.csv --gold gold.jsonl --json", 0),
    "validate-candidates": ("data validate candidates.jsonl --as candidates --json", 0),
    "validate-corpus": ("data validate docs.jsonl --as corpus --json", 0),
    "validate-qulac": ("data validate qulac:near/qulac.json --json", 0),
    "validate-clariq": ("data validate clariq:near/clariq/dev.tsv --json", 0),
    "validate-panes": ("data validate mimics-duo:near/duo --json", 0),
    "convert": ("data convert hard518:queries.csv --gold gold.jsonl --to tables/NAME.jsonl", 0),
    "convert-qulac": ("data convert qulac:near/qulac.json --to tables/NAME.csv", 0),
    "convert-panes": ("data convert mimics-duo:near/duo --to tables/NAME.jsonl", 0),
    "corpus-show": ("corpus show docs.jsonl --json", 0),
    "corpus-search": ("corpus search docs.jsonl ferry --json", 0),
    "qulac-figures": ("data qulac figures near/qulac.json --json --csv tables/NAME", 0),
    "qulac-talks": ("data qulac conversations near/qulac.json --turns 2 --topic 2", 0),
    "qulac-count": ("data qulac conversations near/qulac.json --count --json", 0),
    "qulac-retrieve": (
        "data qulac retrieve near/qulac.json --corpus docs.jsonl --qrels intent:2 --out tables/NAME.json --json",
        0,
    ),
    "qulac-qrels": (
        "data qulac retrieve near/qulac.json --corpus docs.jsonl --qrels near/qulac.qrels --relevance-level 2 "
        "--out tables/NAME.json --json",
        0,
    ),
    "qulac-gains": ("data qulac gains near/evaluation.json --test --json --csv tables/NAME", 0),
    "clariq-figures": ("data clariq figures near/clariq --json", 0),
    "clariq-questions": (
        "data clariq questions near/clariq/dev.tsv near/questions.run --out tables/NAME.json --json",
        0,
    ),
    "clariq-documents": (
        "data clariq documents near/clariq/dev.tsv near/questions.run --evaluation near/facets.json --json",
        0,
    ),
    "clariq-conversations": (
        "data clariq documents near/question_bank.tsv near/conversations.run --evaluation near/contexts.json "
        "--conversations --json",
        0,
    ),
    "clariq-need": ("data clariq need near/clariq/dev.tsv near/need.txt --json", 0),
    "panes": ("data mimics-duo panes near/duo", 0),
    "pane-tables": ("data mimics-duo tables near/duo --draws 20 --json --csv tables/NAME", 0),
    "pane-rerank": ("data mimics-duo rerank near/duo --scores near/scores.jsonl --json", 0),
    "pane-ltr": ("data mimics-duo ltr near/duo --ranker rankboost --folds 3 --json", 0),
}
"""Commands that read."""


# --- The world -----------------------------------------------------------------------------------------


def write_world(folder: Path) -> None:
    """Write the data and cts.toml."""
    queries, gold, corpus = known_world.write_data(folder)
    for path, name, head in ((queries, "queries.csv", 1), (gold, "gold.jsonl", 0), (corpus, "docs.jsonl", 0)):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[: N + head]
        path.unlink()
        (folder / name).write_text("".join(lines), encoding="utf-8")
    from gold_world import DOCUMENTS
    from talk_world import DOCUMENTS as PAGES
    from talk_world import write_talk_world

    write_talk_world(folder)[1].unlink()
    with (folder / "docs.jsonl").open("a") as docs:
        for name, text in (*DOCUMENTS, *((f"page-{name}", text) for name, text in PAGES)):
            docs.write(_line(id=name, url=f"https://{name}.example/", title=name.title(), text=text))
    for offset, name in enumerate(("candidates", "others")):
        (folder / f"{name}.jsonl").write_text("".join(_candidate(i, offset) for i in range(N)))
    write_config(folder)
    _write_neighbours(folder / "near")


def write_config(folder: Path, server: str = NOWHERE) -> None:
    """Write cts.toml, with every model at `server`."""
    (folder / "cts.toml").write_text(
        "".join(
            f'[models.{name}]\nbase_url = "{server}/v1"\nmodel = "{name}-id"\n'
            "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
            for name in PLAYS
        )
    )


def _line(**fields: Any) -> str:
    return json.dumps(fields) + "\n"


def _candidate(i: int, offset: int) -> str:
    """Full, half and empty answers in turn."""
    covered = [f"topic{i:03d} covers {name}" for name in ("base", *known_world.slots_of(i))]
    answer = ("; ".join(covered), covered[0], "")[(i + offset) % 3]
    return _line(id=f"q{i:03d}", fused_query=known_world.fused(i), answer=answer)


def _write_neighbours(near: Path) -> None:
    """Write Qulac, ClariQ and MIMICS-Duo in small, and what is evaluated on them."""
    from made_clariq import BANK, ROWS, clariq_file
    from made_panes import pane, write_panes

    near.mkdir()
    columns = ("topic_id", "facet_id", "topic_facet_id", "topic_facet_question_id", "topic", "topic_type")
    columns += ("facet_type", "topic_desc", "facet_desc", "question", "answer")
    topics = {
        1: ("jaguar", ("the big cat of the rain forest", "a car dealer")),
        2: ("ferry", ("winter times", "prices of tickets")),
        3: ("museum", ("tickets for seniors",)),
    }
    rows: list[tuple[Any, ...]] = []
    for t, (topic, facets) in topics.items():
        for f, facet in enumerate(facets, 1):
            about = (topic, ("ambiguous", "faceted")[t % 2], ("inf", "nav")[f % 2], f"about {topic}", facet)
            for q, word in enumerate(("cheap", "winter", "wild", "open")[: 2 + f], 1):
                asked = (f"are you looking for {word} {topic}", f"{('no', 'yes')[q % 2]}, {facet}")
                rows.append((t, f, f"{t}-{f}", f"{t}-{f}-{q}", *about, *asked))
    table = {name: {str(i): row[n] for i, row in enumerate(rows)} for n, name in enumerate(columns)}
    (near / "qulac.json").write_text(json.dumps(table))
    (near / "qulac.qrels").write_text("1 1 page-animal 2\n1 2 page-car 2\n2 1 ferry 1\n2 1 page-ferry 3\n")
    records = [f"{row[2]}-0-0" for row in rows]
    records += [
        f"{row[2]}-{number}-{said}"
        for row in rows
        for number in (row[3].rpartition("-")[2],)
        for said in "01"
    ]
    (near / "evaluation.json").write_text(
        json.dumps(
            {
                m: {one: round(fake_roles.chance(m, one), 3) for one in records}
                for m in ("NDCG20", "P1", "MRR100")
            }
        )
    )
    clariq_file(near / "clariq" / "dev.tsv")
    clariq_file(near / "clariq" / "train.tsv", (ROWS[6].replace("9\t", "8\t").replace("F03", "F09"),))
    (near / "question_bank.tsv").write_text(BANK)
    (near / "questions.run").write_text(
        "7 Q0 Q00011 0 1.0 mine\n7 Q0 Q00010 1 2.0 mine\n7 Q0 Q00099 2 0.5 mine\n9 Q0 Q00001 0 1 mine\n"
    )
    (near / "conversations.run").write_text('784 0 "which time of day" 0 3 mine\n785 0 "" 0 3 mine\n')
    (near / "need.txt").write_text("7 4\n9 4\n")
    facets = {
        "F01": {"Q00010": {"with_answer": 0.5}, "MIN": {"with_answer": 0.25}},
        "F03": {"Q00012": {"with_answer": 1.0}, "MIN": {"with_answer": 0.5}},
    }
    (near / "facets.json").write_text(json.dumps({"NDCG20": facets, "MRR100": facets}))
    contexts = {
        "784": {"Q00010": {"with_answer": 0.75}, "MIN": {"with_answer": 0.0}},
        "785": {"Q00001": {"with_answer": 0.25}, "MIN": {"with_answer": 0.0}},
    }
    (near / "contexts.json").write_text(json.dumps({"P1": contexts}))
    panes = [
        pane(
            f"query {i}",
            [f"a{i}", "b", "c", "d"][: 2 + (i + j) % 3],
            impression_level=("low", "medium", "high")[i % 3],
            engagement_level=(i * j) % 4,
            offline_rating=1 + (2 * i + j) % 5,
            pane_quality=1 + (i + 2 * j) % 3,
            coverage=1 + (i + j) % 4,
            diversity=1 + (3 * i + j) % 4,
            understandability=1 + (i * i + j) % 4,
            importance_order=1 + (i + j * j) % 4,
        )
        for i in range(15)
        for j in range(3)
    ]
    write_panes(near / "duo", panes)
    scores = [
        _line(query=f"query {i}", pane=j + 1, score=(i * 7 + j * 5) % 9) for i in range(15) for j in range(3)
    ]
    (near / "scores.jsonl").write_text("".join(scores))


# --- The models ----------------------------------------------------------------------------------------


def say(model: str, messages: Sequence[Message]) -> str:
    """Return a model's reply. The agent searches once; rewriting and extracting one query are refused."""
    asked = messages[1]["content"]
    role = fake_roles.role_of(asked)
    if role in ("rewrite", "gold") and FAILING in asked:
        raise RejectedError("refused: content policy")
    invented = " in 2019" if role == "rewrite" and INVENTING in asked else ""
    return reply(model, messages) + invented


def reply(model: str, messages: Sequence[Message]) -> str:
    """Return a model's reply, with nothing refused."""
    asked = messages[1]["content"]
    role = fake_roles.role_of(asked)
    if role == "agent" and len(messages) == 2:
        query = asked.rpartition("User:")[2].strip()
        call = json.dumps({"name": "search", "arguments": {"query": [query]}})
        return f"<think>I look it up.</think>\n<tool_call>\n{call}\n</tool_call>"
    if "topic" in asked and role in ("clarify", "answer", "rewrite", "agent", "judge"):
        return known_world.say(PLAYS[model], messages[-1]["content"] if role != "agent" else asked)
    return fake_roles.say(role, messages, 0.3)


def cts(*words: str, says: Callable[[str, Sequence[Message]], str] = say) -> Result:
    """Run `cts WORDS` in the current folder, with models that reply at once."""

    async def chat(self: Client, spec: Any, request: ChatRequest) -> Reply:
        text = says(spec.name, request.messages)
        return Reply(text, spec.model, "stop", Usage(100, 10))

    with patch.object(Client, "chat", chat), patch.object(sys, "argv", ["cts", *words]):
        return CliRunner().invoke(app, list(words))


@contextmanager
def server() -> Iterator[str]:
    """Serve the same models over HTTP, for processes that cannot be patched; nothing is refused."""
    from aiohttp import web

    async def chat(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        text = reply(str(asked["model"]).removesuffix("-id"), asked["messages"])
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        return web.json_response({"model": asked["model"], "choices": [choice], "usage": usage})

    loop = asyncio.new_event_loop()
    web_app = web.Application()
    web_app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(web_app, access_log=None)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


# --- What is kept --------------------------------------------------------------------------------------

_VOLATILE = ("time", "latency_s", "last_worked", "wall_s", "wait_s", "start", "end", "version")
_PROSE = (
    "verdict",
    "problem",
    "note",
    "message",
    "caption",
    "judgments",
    "what",
    "expects",
    "uses",
    "source",
)
_STRING = r'"(?:[^"\\]|\\.)*"'
_BLANKED = (
    re.compile(rf'"(?:{"|".join(_VOLATILE)})": ?(?:-?[\d.e+-]+|{_STRING})'),
    re.compile(rf'"(?:{"|".join(_PROSE)})": ?{_STRING}'),
    re.compile(rf'"notes": ?\[(?:\s*{_STRING},?)*\s*\]'),
    re.compile(r"\bbm25 over docs.jsonl; .*"),
    re.compile(r"\bcts_async \d+\.\d+\.\d+"),
)
_LONG_NUMBER = re.compile(r"-?\d+\.\d{10,}(?:e-?\d+)?")


def normalised(text: str) -> str:
    """Remove what may differ: times, versions, absolute paths, wording for people, and digits after the tenth.

    The last digits of a float are those of a processor's vector instructions.
    """
    for pattern in _BLANKED:
        text = pattern.sub("-", text)
    text = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.10g}", text)
    return text.replace(str(Path.cwd()), ".")


def snapshot(*paths: str) -> dict[str, list[str]]:
    """Return the normalised lines of the data files at or below the paths, by path.

    The lines of JSON Lines files are sorted, since concurrent instances end in any order.
    """
    found = {}
    files = [file for path in paths for file in (Path(path), *Path(path).rglob("*"))]
    for file in sorted(files):
        if file.is_file() and file.suffix in (".json", ".jsonl", ".csv"):
            lines = normalised(file.read_text(encoding="utf-8")).splitlines()
            found[str(file)] = sorted(lines) if file.suffix == ".jsonl" else lines
    return found


def done(name: str, typed: str, code: int) -> list[str]:
    """Run a command that has to end with the exit code; returns its normalised JSON, if that is what it prints."""
    result = cts(*typed.replace("NAME", name).split())
    assert result.exit_code == code, (typed, result.output, result.stderr, result.exception)
    assert isinstance(result.exception, SystemExit | None), result.exception
    return normalised(result.stdout).splitlines() if result.stdout.startswith(("{", "[")) else []


def clean_environment(folder: Path) -> dict[str, str]:
    """Return the environment without keys and addresses of models, and with caches in the folder."""
    ours = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**ours, "XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "cache")}


RESUMED = ("half", "cluster/half", "HALF.jsonl")
"""What `HALF` finishes."""
REPEATED = ("runs", "near/runs", "judged", "GOLD.jsonl", "tables")
"""What `MADE` makes."""


def interrupt(run: Path, results: int) -> None:
    """Leave of a finished run what a killed process leaves: some results, steps beyond them, a torn last line."""
    steps = (run / "steps.jsonl").read_bytes()
    end = len(steps) * 7 // 8
    (run / "steps.jsonl").write_bytes(steps[:end])
    lost = {json.loads(line)["instance"] for line in steps[steps.rindex(b"\n", 0, end) :].splitlines()[1:]}
    lines = (run / "results.jsonl").read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if json.loads(line)["id"] not in lost]
    (run / "results.jsonl").write_bytes(b"".join(whole[:results]))
    for path in ("judgments", "summary.json"):
        shutil.rmtree(run / path, ignore_errors=True)
        (run / path).unlink(missing_ok=True)


def make(folder: Path) -> None:
    """Write the runs, and what this version printed about them, into a new folder."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    write_world(Path())
    with server() as address:
        write_config(Path(), address)
        for typed in (f"{CLUSTER} --name merged", HALF["cluster-half"][0]):
            words = typed.split()
            command = [
                sys.executable,
                "-m",
                "cts_async.cli.main",
                *words,
                "--workers",
                "2",
                "--config",
                "cts.toml",
            ]
            subprocess.run(command, check=True)
    write_config(Path())
    for name, command in HALF.items():
        if name != "cluster-half":
            done(name, *command)
    for run in (*Path("half").iterdir(), Path("cluster/half")):
        interrupt(run, results=2 if "talks" in run.name else 5)
    Path("HALF.jsonl").unlink()
    printed = {name: done(name, *command) for name, command in (MADE | READ).items()}
    kept = {"tables": snapshot("tables")}
    interrupted = Path("half"), Path("cluster")
    for path in interrupted:
        shutil.copytree(path, Path("before", path))
    printed |= {name: done(name, *command) for name, command in HALF.items()}
    kept["resumed"] = snapshot(*RESUMED)
    for path in interrupted:
        shutil.rmtree(path)
        Path("before", path).rename(path)
    Path("HALF.jsonl").unlink()
    for path in (
        Path("before"),
        Path("cache"),
        *(path for path in Path("tables").iterdir() if path.name != "converse"),
    ):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (*Path().glob("*.html"), *Path().rglob(".lock")):
        path.unlink()
    Path("expected.json").write_text(json.dumps({"printed": printed, **kept}, indent=0, ensure_ascii=False))


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    with patch.dict(os.environ, clean_environment(target), clear=True):
        make(target)
