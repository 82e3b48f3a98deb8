"""`cts report`: one page that needs nothing else, and in which nobody's text is markup."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from lxml import html
from made_runs import Row, made_run

from cts_async.errors import StorageFull, UsageError
from cts_async.pages.report import Origin
from cts_async.pages.report_files import make_report
from cts_async.runs.open_run import find_places

ORIGIN = Origin("cts report runs", datetime(2026, 11, 21, 12, 30, tzinfo=UTC))
NAME = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
HOSTILE = f"{NAME}\x1b[2J"


def reported(*words: Path, **asked: Any) -> tuple[Any, list[str]]:
    """The page, parsed, and the messages."""
    asked = {"out": words[0].parent / "page.html", **asked}
    messages = list(make_report([*map(str, words)], ORIGIN, **asked))
    return html.fromstring(asked["out"].read_text(encoding="utf-8")), messages


def text(node: Any) -> str:
    return " ".join(node.text_content().split())


def rows(page: Any, table: str) -> list[list[str]]:
    return [
        [text(cell) for cell in row]
        for row in page.get_element_by_id(f"table-{table}").iterfind(".//tbody/tr")
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orig and gpt-k1 over a, b and c, of which gpt failed on c; judged by ernie and kimi."""
    folder = tmp_path_factory.mktemp("made") / "runs"
    ferry = {"blurred_query": "ferry times", "fused_query": "ferry times in winter"}
    made_run(
        folder,
        label="orig",
        rows=[
            Row("a", labels={"ernie": "ff", "kimi": "fn"}, **ferry),
            Row("b", labels={"ernie": "nn", "kimi": "nn"}),
            Row("c", labels={"ernie": "fn", "kimi": "fn"}),
        ],
    )
    made_run(
        folder,
        label="gpt-k1",
        rows=[
            Row(
                "a",
                questions=["Which season?"],
                answers=["unknown"],
                labels={"ernie": "nn", "kimi": "nn"},
                rewritten_query="ferry times 冬季",
                answer="x" * 2_500,
                **ferry,
            ),
            Row("b", questions=["哪一年？"], answers=["2024"], labels={"ernie": "fp", "kimi": "ff"}),
            Row("c", error="search/turn/2"),
        ],
    )
    return folder


@pytest.fixture(scope="module")
def page(runs: Path) -> Any:
    return reported(runs)[0]


def test_page_leaderboard_equals_compare(page: Any) -> None:
    """orig has 100, 0 and 50; gpt-k1 0 and 75, over two instances of which orig has (100 + 0) / 2."""
    assert [row[:3] + row[-2:] for row in rows(page, "leaderboard")] == [
        ["orig", "-", "50.000", "3/3", "0"],
        ["gpt-k1", "1", "37.500 (-12.500)", "2/3", "1"],
    ]


def test_page_opens_with_the_answer_and_the_gains(tmp_path: Path, page: Any) -> None:
    """Of a and b asking lost 100 and gained 75: -12.5 on average, and both signs are as likely."""
    answer, figure, *_ = page.xpath("//header/*[@class='verdict' or @class='figure']")
    assert text(answer) == (
        "Does asking help? Not shown: gpt-k1 changes the mean score by -12.50 points against orig, but too few "
        "instances differ for any test to show it (no interval, n = 2, judge ernie, p = 1.000)."
    )
    assert figure.get("id") == "figure-gain"
    assert len(page.xpath("//*[@data-figure='gain']")) == 1
    # Scores of an embedded model answer nothing, and a run alone has no gain.
    made_run(tmp_path / "runs", label="local-k1", rows=[Row("a", labels={"ernie": "f"})], embedded=True)
    alone, _ = reported(tmp_path / "runs")
    assert alone.xpath("//header/*[@class='verdict']") == []
    assert alone.xpath("//header/*[@class='figure']")[0].get("id") == "figure-leaderboard"


def test_page_says_what_bold_means_where_something_is_bold(tmp_path: Path, page: Any) -> None:
    assert "Bold:" not in text(page.get_element_by_id("table-leaderboard"))
    for label, letter in (("orig", "n"), ("a-k1", "f"), ("b-k1", "n")):
        rows_of = [Row(f"q{i}", labels={"ernie": letter}) for i in range(12)]
        made_run(tmp_path / "runs", label=label, rows=rows_of)
    bold, _ = reported(tmp_path / "runs", tables=tmp_path / "tables")
    table = bold.get_element_by_id("table-leaderboard")
    assert [text(cell) for cell in table.iterfind(".//td/strong")] == ["100.000 (+100.000)"]
    legend = (
        "Bold: the highest mean (orig and gold do not compete), and every mean that no paired test separates"
    )
    assert legend in text(table)
    for name in ("leaderboard.md", "leaderboard.tex"):
        assert "Bold: the highest mean" in (tmp_path / "tables" / name).read_text()
    assert "Bold:" in (tmp_path / "tables" / "results.tex").read_text()


def test_page_has_tables_of_every_judge_and_diagnosis(page: Any) -> None:
    ids = {section.get("id") for section in page.iterfind(".//section[@class='table']")}
    assert {"table-intervals", "table-pairs", "table-agreement", "table-leaderboard_kimi"} < ids
    assert {"table-table_4", "table-question_types", "table-effort"} < ids


def test_page_anchors_are_distinct_and_linked(page: Any) -> None:
    ids = page.xpath("//@id")
    links = [link.get("href") for link in page.iterfind(".//nav//a")]
    assert len(ids) == len(set(ids))
    assert links
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert set(page.xpath("//@aria-labelledby")) <= set(ids)


def test_page_opens_instance_with_conversation_and_nuggets(page: Any) -> None:
    (loss,) = (one for one in page.iterfind(".//details[@class='instance']") if "loss" in text(one[0]))
    assert text(loss[0]) == "greatest loss, lowest score 0.0, −100.0 over orig ferry times"
    of_orig = page.find(".//details[@class='instance']")
    titles = [{text(one) for one in shown.iterfind(".//dt")} for shown in (of_orig, loss)]
    assert ["Rewritten query" in one for one in titles] == [False, True]
    assert [text(one) for one in loss.iterfind(".//ol/li/p")] == ["Which season?", "unknown"]
    assert [mark.text for mark in loss.iterfind(".//mark")] == ["冬季"]
    assert "… (2,500 characters)" in text(loss)
    assert [[text(cell) for cell in row] for row in loss.iterfind(".//tbody/tr")] == [
        ["N1", "1", "-", "○ none", "○ none"],
        ["N2", "1", "-", "○ none", "○ none"],
    ]
    (link,) = loss.iterfind(".//a")
    assert link.get("href") == "http://127.0.0.1:8518/#/instance?run=made-gpt-k1&id=a"


def test_page_figures_have_text_alternative_and_numbers(page: Any) -> None:
    drawn = json.loads(page.get_element_by_id("figures").text)
    places = page.xpath("//*[@data-figure]")
    assert {place.get("data-figure") for place in places} == set(drawn["figures"])
    assert set(drawn["themes"]) == {"light", "dark"}
    assert all(place.get("role") == "group" and place.get("aria-label") for place in places)
    numbers = page.get_element_by_id("figure-leaderboard").iterfind(".//tbody/tr")
    (orig,) = ([text(cell) for cell in row] for row in numbers if "orig" in text(row))
    assert orig == ["reference", "orig", "50.00", "n = 2"]


def hashes(page: Any) -> Iterator[str]:
    for script in page.iterfind(".//script"):
        if script.get("type") != "application/json":
            yield base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()


def test_content_policy_allows_own_scripts_only(page: Any) -> None:
    (policy,) = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes(page))
    assert policy == (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def test_untrusted_text_is_escaped_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    row = Row(
        HOSTILE,
        questions=[HOSTILE],
        answers=[HOSTILE],
        labels={NAME: "fn", "kimi": "ff"},
        fused_query=HOSTILE,
        blurred_query=HOSTILE,
        rewritten_query=HOSTILE + " more",
        answer=HOSTILE,
    )
    # Names in a manifest are of one line and without control characters: others are refused where they are read.
    made_run(folder, label="orig", rows=[row], name="orig", data=NAME)
    made_run(folder, label=f"{NAME}-k1", rows=[row, Row("b", error=HOSTILE)], name="other", data=NAME)
    page, _ = reported(folder)
    assert len(page.findall(".//script")) == 3
    assert not page.findall(".//img")
    names = {name for one in page.iter() for name in one.attrib}
    assert not [name for name in names if name.startswith("on") or name == "style"]
    assert all(link.startswith(("#", "http://127.0.0.1:8518/#")) for link in page.xpath("//@href"))
    shown = [text(one) for one in page.iterfind(".//div[@class='answer']")]
    assert "</script><script>alert(1)</script><img src=x onerror=alert(2)>[U+202E][U+001B][2J" in shown
    assert not {"\u202e", "\x1b"} & set(page.text_content())
    assert page.xpath("//script[@type='application/json']")[0].text.count("<") == 0


def test_smoke_test_is_marked_at_top_and_tables(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", label="orig", rows=[Row("a", score=50)])
    made_run(tmp_path / "runs", label="local-k1", rows=[Row("a", score=60)], embedded=True)
    page, _ = reported(tmp_path / "runs")
    assert text(page.find(".//p[@class='warning']")).endswith("Systems: local-k1.")
    for name in ("leaderboard", "intervals", "pairs", "effort"):
        assert "Smoke test: " in text(page.get_element_by_id(f"table-{name}"))
    assert "local-k1 (smoke test)" in [text(one) for one in page.iterfind(".//h3")]


@pytest.mark.parametrize("inside", [False, True])
def test_links_match_viewer_names(tmp_path: Path, inside: bool) -> None:
    """`inside`: runs in a folder that is one itself, as candidates lie in the directory of their judging."""
    folder = tmp_path / "week 1" / "judged"
    for label in ("orig", "gpt-k1"):
        made_run(folder, label=label, rows=[Row("a", score=50)])
    if inside:
        (folder / "run.json").write_text("{}")
    page, _ = reported(folder / "made-orig", folder / "made-gpt-k1")
    links = page.xpath("//a[starts-with(@href, 'http://127.0.0.1:8518/')]/@href")
    named = {parse_qs(link.partition("?")[2])["run"][0] for link in links}
    shown = folder.parent if inside else folder
    assert named == {place.name for place in find_places(shown)[0]} - {"judged"}
    assert f"start it with cts view '{shown}'." in text(page)


def test_unjudged_runs_have_a_report_without_scores(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", label="gpt-k1", rows=[Row("a", ["Q?"], ["unknown"])])
    page, messages = reported(tmp_path / "runs")
    assert "none of these runs is judged" in messages[1]
    assert rows(page, "table_4")[0][-2:] == ["1.000", "0.000"]


def test_differences_are_to_requested_baseline(runs: Path, tmp_path: Path) -> None:
    page, _ = reported(runs, out=tmp_path / "page.html", baseline="gpt-k1")
    assert [row[2] for row in rows(page, "leaderboard")] == ["37.500", "50.000 (+12.500)"]
    with pytest.raises(UsageError, match="no such system here"):
        reported(runs, out=tmp_path / "page.html", baseline="kimi")


def test_default_path_is_run_or_common_folder(tmp_path: Path) -> None:
    one = made_run(tmp_path / "runs", label="orig", rows=[Row("a", score=60)])
    made_run(tmp_path / "runs", label="gold", rows=[Row("a", score=90)])
    for word in (one, tmp_path / "runs"):
        list(make_report([str(word)], ORIGIN))
        assert (word / "report.html").stat().st_size > 100_000


def test_unwritable_path_is_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; name a file in it"):
        reported(runs, out=tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        reported(runs, out=tmp_path / "nowhere" / "page.html")


def test_file_that_is_no_page_is_not_replaced(runs: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"id":"a"}\n')
    with pytest.raises(
        UsageError, match=r"gold\.jsonl: exists and is not an HTML page; choose another path with --out"
    ):
        reported(runs, out=gold)
    assert gold.read_text() == '{"id":"a"}\n'
    unnamed = tmp_path / "report"
    for earlier in ("", "<!DOCTYPE html>\n<p>"):
        unnamed.write_text(earlier)
        reported(runs, out=unnamed)
        assert unnamed.stat().st_size > 100_000


def test_full_disk_keeps_old_report(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> str:
        raise OSError(28, "No space left on device")

    old = tmp_path / "page.html"
    old.write_text("the old one")
    monkeypatch.setattr("cts_async.pages.report._page", full)
    with pytest.raises(StorageFull, match="No space left"):
        reported(runs, out=old)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("page.html", "the old one")]


def test_tables_are_written_under_distinct_names(runs: Path, tmp_path: Path) -> None:
    _, messages = reported(runs, out=tmp_path / "page.html", tables=tmp_path / "tables")
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {
        f"{name}.{end}" for name in ("leaderboard", "leaderboard_kimi") for end in ("md", "tex", "csv")
    } < names
    counted = f"{len(names) // 3} tables in {len(names)} files"
    assert messages[-1] == f"{tmp_path / 'tables'}: {counted}, for a paper results.tex and appendix.tex"
    assert "| gpt-k1 | 1 | 37.500 (-12.500) |" in (tmp_path / "tables" / "leaderboard.md").read_text()


def test_published_section_is_for_hard518_as_a_whole(tmp_path: Path, runs: Path) -> None:
    for label, score in (("orig", 20.0), ("gpt-k1", 27.0)):
        rows_of = [Row(f"q{i}", score=score - 1 + 2 * (i % 2)) for i in range(40)]
        players = {"agent": NAME}
        made_run(
            tmp_path / "runs", label=label, rows=rows_of, data="hard518", n_expected=518, players=players
        )
        made_run(tmp_path / "part", label=label, rows=rows_of, data="hard518")
    page, _ = reported(tmp_path / "runs", tables=tmp_path / "tables")
    first, warning, *_ = [text(line) for line in page.find_class("headline")[0]]
    # Means 20 and 27, a point off each, and the same difference of 7.000 everywhere, which has no interval. The
    # paper's are 19.434, 26.474 and 7.040.
    assert first.startswith(
        "1 of 6 published values lie in our 95 % intervals (not comparable); the others: orig mean 19.434"
    )
    assert warning.startswith("Not comparable with the paper: n = 40 instead of 518; agent </script>")
    section = page.get_element_by_id("published")
    assert text(section[0]) == "Compared with the paper"
    assert first in text(section)
    assert rows(page, "published_3") == [
        ["GPT", "1", "delta", "7.040 [5.566, 8.578]", "7.000", "-0.040", "-", "40", "gpt-k1"]
    ]
    assert (tmp_path / "tables" / "published_2.tex").exists()
    for other in (runs, tmp_path / "part"):
        page, _ = reported(other, out=tmp_path / "other.html")
        assert page.find(".//section[@id='published']") is None
        assert not any("published" in text(line) for line in page.find_class("headline"))
