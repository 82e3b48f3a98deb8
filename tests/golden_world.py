"""The campaign behind tests/golden: what was typed, and what its models say. Deterministic, without a server.

    python tests/golden_world.py FOLDER      writes what tests/golden has as VERSION.tar.gz

It is run with the package of the version whose runs are to be kept (PYTHONPATH), so that later versions can be held to
read, resume and report them. The world is the first 14 instances of `known_world`: one of each kind.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import known_world
from fake_roles import role_of
from typer.testing import CliRunner, Result

from cts_async.cli.main import app
from cts_async.engine.events import Usage
from cts_async.errors import RejectedError
from cts_async.llm.client import Client
from cts_async.llm.messages import ChatRequest, Message, Reply

N = 14
PLAYS = {"alpha": "gpt", "beta": "kimi", "support": "ernie", "strict": "strict"}
"""Names of models here, and who they are in `known_world`."""
DATA = ("--data", "hard518:queries.csv", "--gold", "gold.jsonl", "--corpus", "docs.jsonl", "-q")
ROLES = ("--support", "support", "--agent", "support", "--judge", "support")
RUN = ("run", "-m", "alpha", "-k", "1", "-k", "2", "-k", "3", "--gold-query", *ROLES, *DATA)
INTERRUPTED = ("run", "-m", "beta", "-k", "2", "--no-orig", *ROLES, *DATA)
JUDGE = (
    "judge",
    "runs/hard518-orig+all-support",
    "runs/hard518-alpha-k2+all-support",
    "--judge",
    "strict",
    "-q",
)
FAILING = "topic005"


def write_world(folder: Path) -> None:
    """Write the data and cts.toml."""
    queries, gold, corpus = known_world.write_data(folder)
    for path, name, head in ((queries, "queries.csv", 1), (gold, "gold.jsonl", 0), (corpus, "docs.jsonl", 0)):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[: N + head]
        path.unlink()
        (folder / name).write_text("".join(lines), encoding="utf-8")
    (folder / "cts.toml").write_text(
        "".join(
            f'[models.{name}]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "{name}-id"\n'
            "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
            for name in PLAYS
        )
    )


def say(model: str, messages: Sequence[Message]) -> str:
    """What a model says. The agent searches once; the Rewriter `alpha` needs is refused for one instance."""
    asked = messages[1]["content"]
    role = role_of(asked)
    if role == "rewrite" and FAILING in asked:
        raise RejectedError("refused: content policy")
    if role == "agent" and len(messages) == 2:
        query = asked.rpartition("User:")[2].strip()
        call = json.dumps({"name": "search", "arguments": {"query": [query]}})
        return f"<think>I look it up.</think>\n<tool_call>\n{call}\n</tool_call>"
    return known_world.say(PLAYS[model], asked)


def cts(*words: str, says: Callable[[str, Sequence[Message]], str] = say) -> Result:
    """`cts WORDS` in the current folder, with models that answer at once."""

    async def chat(self: Client, spec: Any, request: ChatRequest) -> Reply:
        text = says(spec.name, request.messages)
        return Reply(text, spec.model, "stop", Usage(100, 10))

    with patch.object(Client, "chat", chat), patch.object(sys, "argv", ["cts", *words]):
        return CliRunner().invoke(app, list(words))


def interrupt(run: Path, results: int) -> None:
    """Leave of a finished run what a killed process leaves: some results, steps beyond them, a torn last line."""
    lines = (run / "results.jsonl").read_bytes().splitlines(keepends=True)
    (run / "results.jsonl").write_bytes(b"".join(lines[:results]))
    steps = (run / "steps.jsonl").read_bytes()
    (run / "steps.jsonl").write_bytes(steps[: len(steps) * 2 // 3])
    for path in ("judgments", "summary.json"):
        shutil.rmtree(run / path, ignore_errors=True)
        (run / path).unlink(missing_ok=True)


def make(folder: Path) -> None:
    """Write everything into the folder, which is made."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    write_world(Path())
    for words, code in ((RUN, 1), (JUDGE, 1), (INTERRUPTED, 1)):
        done = cts(*words)
        assert done.exit_code == code, (words, done.output, done.exception)
        assert isinstance(done.exception, SystemExit | None), done.exception
    interrupt(Path("runs/hard518-beta-k2+all-support"), results=5)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
