"""The campaign behind tests/golden: the commands that were typed, and what their models reply.

    python tests/golden_world.py FOLDER      writes what tests/golden holds as VERSION.tar.gz

Run it with the package of the version whose runs are to be kept (PYTHONPATH). Later versions are then held to read,
resume, report and repeat these runs. The models are deterministic and reply without a server, except for the runs on
Ray, whose workers reach a server on the loopback. The data are those of the archive of 0.7.0.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import fake_roles
import known_world
from typer.testing import CliRunner, Result

from cts_async.cli.main import app
from cts_async.engine.events import Usage
from cts_async.errors import RejectedError
from cts_async.llm.apis import ChatRequest, Message, Reply
from cts_async.llm.model import Client

PLAYS = {"alpha": "gpt", "beta": "kimi", "support": "ernie", "strict": "strict"}
"""Model names here, and whom they play in `known_world`."""
NOWHERE = "http://127.0.0.1:9"
WORLD = (
    "candidates.jsonl",
    "cts.toml",
    "docs.jsonl",
    "gold.jsonl",
    "near",
    "others.jsonl",
    "queries.csv",
    "talks.jsonl",
)
"""The data of the campaign in an archive: the first 14 instances of `known_world`, and the neighbours in small."""
FAILING, INVENTING = "topic005", "topic009"
"""What is refused by rewriter and extractor, and where the rewriter adds a year that nobody told it."""
GOLDEN = Path(__file__).with_name("golden")
_TYPED: dict[str, dict[str, tuple[str, int]]] = tomllib.loads((GOLDEN / "typed.toml").read_text("utf-8"))
MADE, HALF, READ = _TYPED["made"], _TYPED["half"], _TYPED["read"]
"""Commands by name that make runs, that finish interrupted ones, and that read: words and exit code."""


def unpack(version: str, folder: Path, *names: str) -> None:
    """Unpack the runs and the data of a version, or only the files and folders named."""
    with tarfile.open(GOLDEN / f"{version}.tar.gz") as packed:
        wanted = [one for one in packed if not names or one.name.removeprefix("./").split("/")[0] in names]
        packed.extractall(folder, wanted, filter="data")


def write_config(folder: Path, server: str = NOWHERE) -> None:
    """Write cts.toml, with every model at `server`."""
    (folder / "cts.toml").write_text(
        "".join(
            f'[models.{name}]\nbase_url = "{server}/v1"\nmodel = "{name}-id"\n'
            "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
            for name in PLAYS
        )
    )


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
    *("verdict", "problem", "note", "message", "caption", "judgments", "what", "expects", "uses", "source"),
)
_STRING = r'"(?:[^"\\]|\\.)*"'
_BLANKED = (
    re.compile(rf'"(?:{"|".join(_VOLATILE)})": ?(?:-?[\d.e+-]+|{_STRING})'),
    re.compile(rf'"(?:{"|".join(_PROSE)})": ?{_STRING}'),
    re.compile(rf'"notes": ?\[(?:\s*{_STRING},?)*\s*\]'),
    re.compile(r"\bbm25 over docs.jsonl; .*"),
    re.compile(r"\bcts_async \d+\.\d+\.\d+"),
)
_ADDED_NOTES = re.compile(rf',"notes":\{{"calls":\[(?:\{{(?:"\w+":(?:{_STRING}|\d+),?)*\}},?)*\]\}}')
"""What later agents note in a turn's step of the calls before it."""
_ADDED_PLAN = re.compile(
    r',\n *"reused": \{[^{}]*\}|,\n *"run": "[^"\n]*",\n *"version": \d+(?:,\n *"changed_from": "[^"\n]*")?'
)
"""What later plans say of versions and of reused steps."""
_ADDED_RUN_VERSION = re.compile(r'\n  "(?:run_version|reuses|lineage)": [^\n]*')
"""What later versions note of versions of a run."""
_ADDED_VERSION = re.compile(r'\A\{\n  "version": "[^"]*",\n(?=  "n": )')
"""Who wrote a `summary.json`, which only later versions say."""
_LONG_NUMBER = re.compile(r"-?\d+\.\d{10,}(?:e-?\d+)?")


def normalised(text: str) -> str:
    """Remove what may differ: times, versions, absolute paths, wording for people, and digits after the tenth.

    The last digits of a float are those of a processor's vector instructions.
    """
    text = _ADDED_PLAN.sub("", text)
    text = _ADDED_VERSION.sub("{\n", text)
    for pattern in _BLANKED:
        text = pattern.sub("-", text)
    text = _ADDED_TABLE.sub("", text)
    text = _ADDED_NOTES.sub("", text)
    text = _ADDED_RUN_VERSION.sub("", text)
    text = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.10g}", text)
    return text.replace(str(Path.cwd()), ".")


_ADDED = (
    r"\w+_pairs|best_or_tied|delta_p_holm|priced_usd|unpriced_models|latency_per_instance_s|judge_is|most_cost_usd"
    r"|\w+_differ|testable|n_distinct|n_tests|n_needed_holm|detectable_holm|detectable|n_needed|\w*too_short"
    "|same_order|alpha_nominal|alpha_ordinal|unknown_paraphrased|n_known_answers|n_over_informing|shared_queries"
    "|fixed_temperature"
)
"""Keys of JSON and columns of CSV that later versions add, or that follow another rule in them."""
_ADDED_TABLE = re.compile(
    r'\n  "(?:losses|calibration|given_away|unknown_wording)": \[\n(?:    .*\n)*  \],'
    r'|\n    "counted": \[\n(?:      .*\n)*    \],|\n  "figures": \{\n(?:    .*\n)*  \},'
)
ADDED_FILES = (
    *("losses.csv", "calibration.csv", "given_away.csv", "unknown_wording.csv"),
    *("figure_3.csv", "figure_4.csv", "text.csv"),
)
"""Files that later versions add, or that have other rows in them."""
_ADDED_LINE = re.compile(rf'\s*"(?:{_ADDED})": "?[\w.+-]+"?,?')
_ADDED_PAIR = re.compile(r',\n *\{\n *"judge": "strict",\n *"other": "support",\n[^}]*\}')
"""The agreement of two models: 0.7.0 had that of each with the lexical judge."""
_ENDS = re.compile(r'(\s*"\w*low"): (-?[\d.e+-]+),\n(\s*"\w*high"): \2(,?)(?=\n|$)')
"""An interval of length 0, which later versions do not call an interval."""


def without_added(path: Path, lines: list[str]) -> list[str]:
    """Remove what later versions add to pretty-printed JSON and to CSV."""
    # The version that wrote a summary, already blanked, stands first; 0.7.0 did not name it.
    if path.name == "summary.json" and lines[1:2] == ["  -,"]:
        lines = lines[:1] + lines[2:]
    if path.suffix != ".csv" or not lines:
        kept_lines = "\n".join(line for line in lines if not _ADDED_LINE.fullmatch(line))
        kept_lines = _ADDED_TABLE.sub("", kept_lines)
        return _ENDS.sub(r"\1: null,\n\3: null\4", _ADDED_PAIR.sub("", kept_lines)).splitlines()
    rows = list(csv.reader(lines))
    kept = [i for i, name in enumerate(rows[0]) if not re.fullmatch(_ADDED, name)]
    low_ends = [i for i, name in enumerate(rows[0]) if name.endswith("low")]
    for row in rows[1:]:
        for i in low_ends:
            if row[i] == row[i + 1]:
                row[i : i + 2] = ["", ""]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([row[i] for i in kept] for row in rows)
    return text.getvalue().splitlines()


_TABLE: Final = re.compile(r'  "(\w+)": \[(?:\],?)?')
"""The line of pretty-printed JSON that a table begins with."""


_AGENT_MODE = '      "mode": "as-published",'
"""A line of `cts models --json` since there are agent modes."""


def without_additions(lines: list[str], before: Sequence[str]) -> list[str]:
    """Remove what the lines of `before` do not have: tables of statistics, datasets, and the mode of an agent."""
    lines = [line for line in lines if line != _AGENT_MODE]
    return _without_new_datasets(_without_new_tables(lines, before), before)


def _without_new_datasets(lines: list[str], before: Sequence[str]) -> list[str]:
    """Remove objects of a list whose name was not there."""
    if lines[:1] != ["["]:
        return lines
    remaining: list[str] = []
    block: list[str] = []
    for line in lines:
        if line == "  {" or block:
            block.append(line)
        else:
            remaining.append(line)
        if line in ("  }", "  },"):
            if all(part in before for part in block if part.startswith('    "name": ')):
                remaining += block
            block = []
    return remaining


def _without_new_tables(lines: list[str], before: Sequence[str]) -> list[str]:
    """Remove the tables of a diagnosis that were not there."""
    tables = {table[1] for line in before if (table := _TABLE.fullmatch(line))}
    remaining: list[str] = []
    inside = False
    for line in lines:
        table = _TABLE.fullmatch(line)
        if table and table[1] not in tables:
            inside = line.endswith("[")
            continue
        if inside:
            inside = line not in ("  ]", "  ],")
            continue
        remaining.append(line)
    return remaining


def snapshot(*paths: str) -> dict[str, list[str]]:
    """Return the normalised lines of the data files at or below the paths, by path.

    The lines of JSON Lines files are sorted, since concurrent instances end in any order.
    """
    found = {}
    files = [file for path in paths for file in (Path(path), *Path(path).rglob("*"))]
    for file in sorted(files):
        if file.name in ADDED_FILES:
            continue
        if file.is_file() and file.suffix in (".json", ".jsonl", ".csv"):
            lines = without_added(file, normalised(file.read_text(encoding="utf-8")).splitlines())
            found[str(file)] = sorted(lines) if file.suffix == ".jsonl" else lines
    return found


def done(name: str, typed: str, code: int) -> list[str]:
    """Run a command that has to end with the exit code; returns its normalised JSON, if that is what it prints."""
    result = cts(*typed.replace("NAME", name).split())
    assert result.exit_code == code, (typed, result.output, result.stderr, result.exception)
    assert isinstance(result.exception, SystemExit | None), result.exception
    printed = normalised(result.stdout).splitlines() if result.stdout.startswith(("{", "[")) else []
    return without_added(Path("printed.json"), printed)


def clean_environment(folder: Path) -> dict[str, str]:
    """Return the environment without keys and addresses of models, and with caches in the folder."""
    ours = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**ours, "XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "cache")}


@contextmanager
def working_in(folder: Path, version: str, *names: str) -> Iterator[None]:
    """Unpack runs and data of a version into a folder (see `unpack`), which is the current one meanwhile."""
    with patch.dict(os.environ, clean_environment(folder), clear=True):
        unpack(version, folder, *names)
        with chdir(folder):
            yield


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
    unpack("0.7.0", Path(), *WORLD)
    shutil.rmtree("near/runs")
    with server() as address:
        write_config(Path(), address)
        half = HALF["cluster-half"][0].split()
        merged = ["merged" if word == "half" else word for word in half if word != "--no-orig"]
        for words in (merged, half):
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
