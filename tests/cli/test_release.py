"""The project page's quickstart as it stands there, with nothing but the script's name replaced."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from written_files import write_lines

from cts_async.scorer import percentile, restore_score_100

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-of-the-quickstart"
QUICKSTART = """
export QIANFAN_API_KEY="{key}"
# optional:
export QIANFAN_BASE_URL="{url}"
export EVAL_MODEL_NAME="ernie-4.5-turbo-128k"

# 3) run one candidate
cts judge \\
  --gold_a data/gold_public_hard518.jsonl \\
  --gold_b results/candidates/ebk1__cand_hard518.jsonl \\
  --out_dir outputs/ebk1
"""
N = 3
QUERIES = [f"2024年冬季{place}景区的门票价格和开放时间" for place in ("华山", "泰山", "黄山")]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """The release's layout, in small: `release/data`, `release/results/candidates`, `release/code`."""
    folder = tmp_path / "release"
    for name in ("data", "results/candidates", "results/clarify_only", "code"):
        (folder / name).mkdir(parents=True)
    gold = [
        {
            "fused_query": query,
            "gold": {
                "query_intent": query,
                "nuggets": [
                    {"id": f"N{j}", "text": f"{query}第{j}条", "weight": 1 + j % 3, "source_ids": [f"S{j}"]}
                    for j in range(1, 5)
                ],
                "reference_urls": ["https://example.org/"],
                "notes": "",
            },
        }
        for query in QUERIES
    ]
    candidates = [{"fused_query": query, "answer": f"<answer>{query}第1条</answer>"} for query in QUERIES]
    write_lines(folder / "data/gold_public_hard518.jsonl", *gold)
    write_lines(folder / "results/candidates/ebk1__cand_hard518.jsonl", *candidates)
    rows = [f"{i},{query},景区门票" for i, query in enumerate(QUERIES)]
    (folder / "data/hard_518_queries.csv").write_text("\n".join(["id,fused_query,blurred_query", *rows]))
    return folder


def raise_limit(release: Path) -> None:
    """The catalogue's pace of one call a second is the quickstart's own; nothing else here depends on it."""
    (release / "cts.toml").write_text(
        '[models.ernie]\nbase_url_env = "QIANFAN_BASE_URL"\nmodel = "ernie-4.5-turbo-128k"\nrequests_per_min = 6000\n'
    )


@pytest.fixture
def qianfan() -> Iterator[Remote]:
    with provider_process(key=KEY, keep=True) as remote:
        yield remote


def typed(folder: Path, url: str, *, script: str = QUICKSTART) -> subprocess.CompletedProcess[str]:
    """The quickstart in a shell, `cts` being this source tree's."""
    command = f'cts() {{ {shlex.quote(sys.executable)} -m cts_async.cli.main "$@"; }}\n'
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    return subprocess.run(
        ["bash", "-euc", command + script.format(key=KEY, url=url)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_quickstart_works_as_written(release: Path, qianfan: Remote) -> None:
    done = typed(release, qianfan.url)
    assert done.returncode == 0, done.stderr
    asked = [seen.messages[1]["content"] for seen in qianfan.seen() if seen.messages]
    assert len(asked) == N
    assert all(any(query in text for text in asked) for query in QUERIES)
    written = (release / "outputs/ebk1/per_item.jsonl").read_text(encoding="utf-8")
    items = [json.loads(line) for line in written.splitlines()]
    assert sorted(item["fused_query"] for item in items) == sorted(QUERIES)
    for item in items:
        assert [set(nugget) for nugget in item["nuggets"]] == [{"id", "weight", "coverage"}] * 4
        pairs = [(nugget["weight"], nugget["coverage"]) for nugget in item["nuggets"]]
        assert item["restore_score_100"] == restore_score_100(pairs)
        assert item["answer"] == f"{item['fused_query']}第1条"
    scores = sorted(item["restore_score_100"] for item in items)
    summary = json.loads((release / "outputs/ebk1/summary.json").read_text())
    assert (summary["n"], summary["min"], summary["max"]) == (N, scores[0], scores[-1])
    assert (summary["p50"], summary["p90"]) == (percentile(scores, 50), percentile(scores, 90))
    assert summary["mean"] == pytest.approx(sum(scores) / N)
    # The model is that of the environment, its key is written nowhere, and the same commands ask nothing again.
    files = [path.read_text(encoding="utf-8") for path in (release / "outputs").rglob("*") if path.is_file()]
    assert KEY not in "".join(files) + done.stdout + done.stderr
    assert '"model":"ernie-4.5-turbo-128k"' in "".join(files)
    again = typed(release, qianfan.url)
    assert (again.returncode, len(qianfan.seen())) == (0, N)


def test_all_candidates_of_the_release_are_judged_at_once(release: Path, qianfan: Remote) -> None:
    raise_limit(release)
    folder = release / "results/candidates"
    text = (folder / "ebk1__cand_hard518.jsonl").read_text(encoding="utf-8")
    (folder / "orig__cand_hard518.jsonl").write_text(text.replace("第1条</", "第2条</"), encoding="utf-8")
    script = QUICKSTART.replace("results/candidates/ebk1__cand_hard518.jsonl", "'results/candidates/*.jsonl'")
    done = typed(release, qianfan.url, script=script)
    assert done.returncode == 0, done.stderr
    assert len(qianfan.seen()) == 2 * N
    for name in ("ebk1__cand_hard518", "orig__cand_hard518"):
        assert name in done.stdout
        assert json.loads((release / "outputs/ebk1" / name / "summary.json").read_text())["n"] == N
