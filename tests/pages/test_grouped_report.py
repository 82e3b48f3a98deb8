"""A report on runs of several agents has sections, tables, figures and a baseline for each group."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from made_runs import Row, changed_manifest, made_run

from cts_async.errors import UsageError
from cts_async.pages.contents import gather
from cts_async.pages.report import Origin
from cts_async.pages.report_files import make_report

ORIGIN = Origin("cts report runs", datetime(2026, 1, 2, tzinfo=UTC))
AGENTS = ("a<b>", "b")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By agent a<b>, worked on last: orig 10, gpt 30 (+20). By b, a smoke test: orig 0, gpt 5 (+5)."""
    folder = tmp_path_factory.mktemp("report") / "runs"
    for number, (agent, orig, gpt) in enumerate((("a<b>", 10, 30), ("b", 0, 5))):
        for label, score in (("orig", orig), ("gpt-k1", gpt)):
            asked = {} if label == "orig" else {"questions": ["Which year?"], "answers": ["2024"]}
            path = made_run(
                folder,
                label=label,
                rows=[Row(f"q{i}", score=score, **asked) for i in range(6)],  # type: ignore[arg-type]
                name=f"{label}+{number}",
                players={"agent": agent},
                embedded=number == 1,
            )
            with changed_manifest(path) as manifest:
                manifest["sessions"] = [{"start": f"2026-01-0{9 - number}"}]
    return folder


def test_each_group_has_its_own_baseline_and_caveats(runs: Path) -> None:
    gathered = gather([str(runs)])
    assert [group.heading for group in gathered.groups] == ["agent a<b>", "agent b"]
    gains: list[float] = []
    for group in gathered.groups:
        assert group.compared is not None
        gains += [one.gain.mean for one in group.compared.judged[0].standings if one.gain]
    assert gains == [20.0, 5.0]
    assert [group.caveats for group in gathered.groups] == [(), ("smoke test",)]
    assert [group.diagnosis.orig for group in gathered.groups if group.diagnosis] == [
        runs / "orig+0",
        runs / "orig+1",
    ]
    assert len(gathered.run_paths) == 4
    assert gathered.common_notes == (
        "2 groups, each with its own orig, ranks and tests: nothing is compared between them.",
    )


def test_page_has_sections_and_distinct_names_for_each_group(runs: Path, tmp_path: Path) -> None:
    lines = list(make_report([str(runs)], ORIGIN, out=tmp_path / "r.html", tables=tmp_path / "tables"))
    assert lines[1] == "2 groups, each with its own orig, ranks and tests: nothing is compared between them."
    page = (tmp_path / "r.html").read_text()
    assert "4 systems in 2 groups: " in page
    assert "<b>" not in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {"group-1", "group-2", "scores-1", "scores-2", "manifests"} <= set(ids)
    assert {"figure-gain", "figure-gain_group2", "table-leaderboard", "table-leaderboard_2"} <= set(ids)
    headings = re.findall(r'<th[^>]*class="section"[^>]*>(.*?)</th>', page)
    assert [re.sub("<[^>]+>", "", heading) for heading in headings] == [
        "agent a&lt;b&gt;",
        "agent b (smoke test)",
    ]
    # Every link of the contents leads to a section.
    assert set(re.findall(r'href="#([^"]+)"', page)) - {"results"} <= set(ids)
    # The verdict is the first group's; the smoke test of the second has none.
    assert page.count('class="verdict"') == 1
    text = (tmp_path / "tables" / "results.tex").read_text()
    assert text.count("\\multicolumn{6}{@{}l}{\\emph{agent ") == 2
    assert "+20.0" in text
    assert "+5.0" in text


def test_baseline_that_no_group_has_is_refused(runs: Path) -> None:
    with pytest.raises(UsageError, match=r"--baseline x: no such system here; there are orig, gpt-k1"):
        gather([str(runs)], baseline="x")


def test_group_that_cannot_be_read_is_named_beside_the_others(tmp_path: Path) -> None:
    for agent in "ab":
        for label in ("orig", "gpt-k1"):
            rows = [Row("q", score=10.0)]
            made_run(tmp_path, label=label, rows=rows, name=f"{label}+{agent}", players={"agent": agent})
    for label in ("orig", "gpt-k1"):
        (tmp_path / f"{label}+b" / "results.jsonl").write_text('{"id": "q", "questions": "?"}\n')
    gathered = gather([str(tmp_path)])
    assert len(gathered.groups) == 1
    assert any(note.startswith("agent b: left out, since") for note in gathered.notes)
