"""What a shell and a notebook show of loaded runs fits on a screen, and nothing in it is markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from made_runs import Row, changed_manifest, made_run

import cts_async
from cts_async.tables.rows import Tables

ROWS = (Row("a", labels={"ernie": "fn"}), Row("b", labels={"ernie": "ff"}), Row("c", error="search"))


def test_overview_counts_rows_and_shows_a_line_for_each_system(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=ROWS)
    made_run(tmp_path, label="数据-k2", clarifier="数据", rows=ROWS[:1], n_expected=3)
    lines = repr(cts_async.load(tmp_path)).splitlines()
    # (50 + 100) / 2 = 75; the Chinese name takes two columns a character
    assert lines[:4] == [
        "2 runs: 4 instances (3 scored, 1 failed), 6 labelled nuggets, 3 judgments",
        "  system   agent      judge  n   mean  failed  unfinished",
        "  gpt-k1   webdancer  ernie  2  75.00       1           0",
        "  数据-k2  webdancer  ernie  1  50.00       0           2",
    ]
    assert "2 of 3 instances are unfinished" in " ".join(lines[4:-1])
    assert lines[-1] == 'Rows: .instances, .nuggets, .judges, .systems; data frames: .to_pandas("systems")'


def test_overview_of_many_runs_with_long_names_fits_on_a_screen(tmp_path: Path) -> None:
    for n in range(30):
        made_run(
            tmp_path, label="r" * 100 + f"-k{n}", name=f"run{n:02}", rows=ROWS, n_expected=9, embedded=True
        )
    loaded = cts_async.load(tmp_path)
    assert len(loaded.remarks) == 30
    lines = repr(loaded).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 120
    assert "... and 18 more rows: .systems has them all" in lines
    assert "... and 28 more remarks: .remarks has them all" in lines
    assert any(line.startswith("Smoke test: ") for line in lines)
    assert lines[2].endswith("smoke test")
    assert len(loaded._repr_html_()) < 20_000


def test_overview_tells_versions_and_supporting_models_apart(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=ROWS)
    newer = made_run(tmp_path, label="gpt-k1", name="made-gpt-k1.v2", rows=ROWS, players={"support": "kimi"})
    with changed_manifest(newer) as manifest:
        manifest["run_version"] = 2
    loaded = cts_async.load(tmp_path / "made-gpt-k1", newer)
    assert repr(loaded).splitlines()[1:4] == [
        "  system  version  support  agent      judge  n   mean  failed  unfinished",
        "  gpt-k1        1  ernie    webdancer  ernie  2  75.00       1           0",
        "  gpt-k1        2  kimi     webdancer  ernie  2  75.00       1           0",
    ]
    for rows in (loaded.instances, loaded.nuggets, loaded.judges):
        assert {(row["version"], row["support"]) for row in rows} == {(1, "ernie"), (2, "kimi")}


def test_overview_of_nothing_says_so() -> None:
    first, last = repr(Tables([], [], [], ())).splitlines()
    assert first == "0 runs: 0 instances, 0 labelled nuggets, 0 judgments"
    assert last.startswith("Rows: ")


class Read(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_has_the_same_content_escaped(tmp_path: Path) -> None:
    agent = {"agent": "<b>"}
    label = "<script>x&y-k1"
    made_run(tmp_path, label=label, name="a\x1b", rows=ROWS, players=agent, embedded=True, n_expected=4)
    page = Read(cts_async.load(tmp_path)._repr_html_())
    assert set(page.tags) == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.texts[:9] == [
        "1 run: 3 instances (2 scored, 1 failed), 4 labelled nuggets, 2 judgments",
        *("system", "agent", "judge", "n", "mean", "failed", "unfinished", "caveat"),
    ]
    assert page.texts[9:17] == [label, "<b>", "ernie", "2", "75.00", "1", "1", "smoke test"]
    assert page.texts[17].startswith("Smoke test: ")
    assert "/a?: 1 of 4 instances are unfinished" in page.texts[18]
