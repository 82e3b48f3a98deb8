"""A gold file, candidates to judge, and the requests that judging them makes, recorded from a real `cts judge`."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared.endpoint import MODEL, NUGGET_IDS, ROLES, Endpoint, NoNginx, static_endpoint
from benchmarks.shared.process import CTS, ROOT, Spent, ours, spent_by
from benchmarks.shared.result import Result

N_GOLD = 518
QUERY_CHARS, NUGGET_CHARS, ANSWER_CHARS = 160, 70, 1200
"""A query, eight nuggets and an answer: about 2,000 characters beside the prompt's own."""

_WORDS = tuple(
    re.findall(
        r"\w+",
        "ferry island harbour ticket winter timetable museum archive river bridge northern company engine "
        "design result measured before after according between reported season annual growth market public",
    )
)


@dataclass(frozen=True, slots=True)
class JudgeWorld:
    """A directory with gold.jsonl and candidates of any number."""

    directory: Path

    def judge(
        self,
        url: str,
        n: int,
        in_flight: int,
        *,
        words: tuple[str, ...] = (),
        **options: Any,
    ) -> Spent:
        """A fresh `cts judge` of the first `n` candidates by the model at `url`; `options` are those of `command`.

        `words` are typed besides.
        """
        out = self.directory / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = self.command(url, n, in_flight, **options)
        spent = spent_by([*command, *words], cwd=self.directory)
        judged = sum(1 for _ in (out / "per_item.jsonl").open("rb"))
        if judged != n:
            raise RuntimeError(f"{judged} of {n} candidates were judged")
        return spent

    def command(
        self,
        url: str,
        n: int,
        in_flight: int,
        *,
        distinct: int | None = None,
        lexical: bool = False,
        limited: bool = True,
        judge: str = "static",
    ) -> list[str]:
        """The command line, without the lexical judge unless `lexical`; `judge` may be a role of the user's own.

        Of the answers only the first `distinct` are different ones, if that is given. Where it is `limited`, the limits
        are on, and too high to make anybody wait.
        """
        config = self.directory / f"cts-{in_flight}{'-limited' * limited}.toml"
        limits = "requests_per_min = 60_000_000\ntokens_per_min = 600_000_000_000\n"
        config.write_text(
            f'[models.static]\nbase_url = "{url}"\nmodel = "{MODEL}"\nmax_concurrency = {in_flight}\n'
            + limits * limited
        )
        candidates = self.candidates(n, distinct).name
        files = ["--gold", "gold.jsonl", "--candidates", candidates, "--out", "out"]
        return [
            *(*CTS, "judge", *files, "--judge", judge, "--config", config.name),
            *(("--lexical",) if lexical else ()),
            *("--in-flight", str(in_flight), "-q", "--json"),
        ]

    def candidates(self, n: int, distinct: int | None = None) -> Path:
        """A file of the first `n` candidates, whose answers and queries are those of the first `distinct`."""
        distinct = distinct or n
        path = self.directory / f"candidates-{n}-{distinct}.jsonl"
        if not path.exists():
            with path.open("w") as out:
                for i in range(n):
                    out.write(json.dumps({**_candidate(i % distinct), "id": f"c{i:07d}"}) + "\n")
        return path

    def run(self, endpoint: Endpoint, n: int, in_flight: int, *, words: tuple[str, ...] = ()) -> Spent:
        """A fresh `cts run` with three questions over `n` instances: seven calls each, everybody at the endpoint."""
        runs = self.directory / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        tables = [
            f'[models.{name}]\nbase_url = "{url}"\nmodel = "{name}-1"\nmax_concurrency = {in_flight}\n'
            for name, url in (*((role, endpoint.of(role)) for role in ROLES), ("static", endpoint.url))
        ]
        (self.directory / "cts-run.toml").write_text("\n".join(tables))
        (self.directory / "docs.jsonl").write_text(
            json.dumps({"id": "d", "url": "http://d", "title": "d", "text": "d"})
        )
        players = ["--model", "clarify", "--support", "support", "--agent", "agent", "--judge", "static"]
        data = ["--data", self.instances(n).name, "--gold", "gold.jsonl", "--corpus", "docs.jsonl"]
        asked = [
            *CTS,
            "run",
            *players,
            *data,
            "-k",
            "3",
            "--no-orig",
            "--name",
            "r",
            "--config",
            "cts-run.toml",
        ]
        command = [*asked, "--in-flight", str(in_flight), "-q", "--json", *words]
        spent = spent_by(command, cwd=self.directory)
        scored = sum(
            b'"restore_score_100":50.0' in line for line in (runs / "r" / "results.jsonl").open("rb")
        )
        if scored != n:
            raise RuntimeError(f"{scored} of {n} instances were scored")
        return spent

    def instances(self, n: int) -> Path:
        """A file of `n` instances whose intents are those of the gold."""
        path = self.directory / f"instances-{n}.jsonl"
        if not path.exists():
            with path.open("w") as out:
                for i in range(n):
                    row = {
                        "id": f"i{i:06d}",
                        "fused_query": _query(i % N_GOLD),
                        "blurred_query": f"ferries {i}",
                    }
                    out.write(json.dumps(row) + "\n")
        return path

    def bodies(self, n: int) -> Path:
        """The requests that judging the first `n` candidates makes, one JSON body a line."""
        path = self.directory / f"bodies-{n}.jsonl"
        if not path.exists():
            with _recorder(path) as url:
                self.judge(url, n, 64)
        return path


def against_static_endpoint(title: str, measured: Callable[[JudgeWorld, Endpoint], Result]) -> Result:
    """What `measured` finds in a world of its own and an endpoint for it; skipped where there is no nginx."""
    try:
        with tempfile.TemporaryDirectory() as folder, static_endpoint() as endpoint:
            return measured(judge_world(Path(folder)), endpoint)
    except NoNginx as reason:
        return Result(title, skipped=str(reason))


def judge_world(directory: Path) -> JudgeWorld:
    """Write the gold and give the world; its texts are the same every time."""
    with (directory / "gold.jsonl").open("w") as out:
        for i in range(N_GOLD):
            nuggets = [
                {"id": id, "text": prose(f"n/{i}/{id}", NUGGET_CHARS), "weight": 1 + j % 3}
                for j, id in enumerate(NUGGET_IDS)
            ]
            row = {"id": f"g{i}", "fused_query": _query(i), "gold": {"nuggets": nuggets}}
            out.write(json.dumps(row) + "\n")
    return JudgeWorld(directory)


def _candidate(i: int) -> dict[str, str]:
    return {
        "id": f"c{i:07d}",
        "fused_query": _query(i % N_GOLD),
        "answer": prose(f"a/{i}", ANSWER_CHARS),
    }


def _query(i: int) -> str:
    return f"{prose(f'q/{i}', QUERY_CHARS)} {i}"


def prose(seed: str, chars: int) -> str:
    """About `chars` characters of words."""
    words = random.Random(seed).choices(_WORDS, k=chars // 7)
    return " ".join(words).capitalize() + "."


@contextmanager
def _recorder(path: Path) -> Iterator[str]:
    """The base URL of a server that keeps the body of every POST as a line of `path`."""
    command = [sys.executable, "-m", "benchmarks.shared.recorder", str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, env=ours(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        # Its standard input ends with this block, and so does it, with everything written.
