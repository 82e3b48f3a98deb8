"""The standalone scorer: the paper's metric, its summary, and the files it reads."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_files import write_lines

from cts_async import scorer
from cts_async.scorer import (
    BadInput,
    Summary,
    Unscored,
    main,
    percentile,
    read_gold,
    read_outcomes,
    restore_score_100,
    score_file,
    score_of_labels,
    summarise,
)

labels = st.sampled_from(["full", "partial", "none"])
weights = st.floats(min_value=1e-6, max_value=1e6) | st.integers(min_value=1, max_value=3)
judged = st.lists(st.tuples(weights, labels), min_size=1, max_size=30)
finite_scores = st.lists(st.floats(min_value=0, max_value=100), min_size=1, max_size=50)


def nuggets(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"id": f"N{i}", "weight": w, "coverage": c} for i, (w, c) in enumerate(pairs, 1)]


def item(name: str, *pairs: tuple[Any, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "nuggets": nuggets(*pairs), **more}


def failure(name: str) -> dict[str, Any]:
    return {"id": name, "error": {"step": "judge", "kind": "rejected", "message": "too long"}}


# -- restore_score_100 --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(3, "full")], 100.0),
        ([(3, "none"), (1, "none")], 0.0),
        ([(2, "partial")], 50.0),  # 2 * 0.5 / 2
        ([(3, "full"), (2, "partial"), (1, "none")], 400 / 6),  # (3*1 + 2*0.5 + 1*0) / (3 + 2 + 1) = 4/6
        ([(1, "full"), (1, "full"), (2, "none")], 50.0),  # 2 / 4
        ([(3, "partial"), (3, "partial"), (2, "full")], 62.5),  # (1.5 + 1.5 + 2) / 8 = 5/8
        ([(0.5, "full"), (1.5, "none")], 25.0),  # weights need not be whole: 0.5 / 2
    ],
)
def test_score_is_weighted_recall_with_half_credit(pairs: list[tuple[float, str]], expected: float) -> None:
    assert restore_score_100(pairs) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weight", [0, -1, math.nan, math.inf, 10**400, True, None, "3"])
def test_weight_that_is_no_positive_finite_number_is_refused(weight: Any) -> None:
    with pytest.raises(ValueError, match=r"weight .* is not a positive finite number"):
        restore_score_100([(1, "full"), (weight, "full")])


@pytest.mark.parametrize("label", ["Full", "yes", "", None, 1, ["full"]])
def test_unknown_label_is_refused(label: Any) -> None:
    with pytest.raises(ValueError, match=r"coverage .* is not one of full, partial, none"):
        restore_score_100([(1, label)])


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 0.5, 1.0]), st.sampled_from(["full", "partial", "none"])),
        min_size=1,
        max_size=5,
    )
)
def test_score_of_labels_is_that_of_their_pairs(pairs: list[tuple[float, str]]) -> None:
    weights, labels = zip(*pairs, strict=True)
    for _ in range(2):  # computed, and remembered
        assert score_of_labels(weights, labels) == restore_score_100(pairs)


def test_score_of_labels_refuses_what_the_score_refuses() -> None:
    assert score_of_labels((1, 1), ("full", "none")) == 50
    # True is the same key of a cache as 1.
    for weights, labels in [
        ((True, 1), ("full", "none")),
        ((0, 1), ("full", "none")),
        ((1, 1), ("full", "?")),
    ]:
        with pytest.raises(ValueError, match="is not"):
            score_of_labels(weights, labels)


@pytest.mark.parametrize(
    ("pairs", "problem"), [([], "no nuggets"), ([(1.7e308, "full"), (1.7e308, "full")], "too large")]
)
def test_no_nuggets_and_weights_whose_sum_overflows_are_no_score(pairs: list[Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        restore_score_100(pairs)


@given(judged)
def test_scores_stay_in_range_and_reach_both_ends(pairs: list[tuple[float, str]]) -> None:
    assert 0 <= restore_score_100(pairs) <= 100
    assert restore_score_100((w, "full") for w, _ in pairs) == 100
    assert restore_score_100((w, "none") for w, _ in pairs) == 0


@given(judged.flatmap(lambda pairs: st.tuples(st.just(pairs), st.permutations(pairs))))
def test_scores_do_not_depend_on_the_order(both: tuple[list[Any], list[Any]]) -> None:
    assert restore_score_100(both[0]) == restore_score_100(both[1])


@given(judged, st.data())
def test_better_label_never_lowers_the_score(pairs: list[tuple[float, str]], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(pairs) - 1))
    weight, label = pairs[place]
    better = {"none": "partial", "partial": "full", "full": "full"}[label]
    improved = [*pairs[:place], (weight, better), *pairs[place + 1 :]]
    assert restore_score_100(improved) >= restore_score_100(pairs)


@given(judged, st.floats(min_value=1e-3, max_value=1e3))
def test_only_the_ratio_of_weights_matters(pairs: list[tuple[float, str]], scale: float) -> None:
    scaled = [(weight * scale, label) for weight, label in pairs]
    assert restore_score_100(scaled) == pytest.approx(restore_score_100(pairs), rel=1e-12)


# -- percentiles and the summary ----------------------------------------------------------------------


def test_percentiles_interpolate_between_neighbours() -> None:
    values = [10.0, 20.0, 30.0, 40.0]
    assert percentile(values, 50) == 25.0  # position 3 * 0.5 = 1.5: halfway from 20 to 30
    assert percentile(values, 90) == pytest.approx(37.0)  # position 2.7: 30 + 0.7 * 10
    assert (percentile(values, 0), percentile(values, 100)) == (10.0, 40.0)
    assert percentile([7.0], 90) == 7.0


@given(finite_scores, st.floats(min_value=0, max_value=100) | st.integers(0, 100))
def test_percentiles_are_those_of_numpy(values: list[float], q: float) -> None:
    assert percentile(sorted(values), q) == np.percentile(values, q)


@pytest.mark.parametrize(("values", "q"), [([], 50), ([1.0], -1), ([1.0], 100.5), ([1.0], math.nan)])
def test_percentile_needs_values_and_a_q_in_range(values: list[float], q: float) -> None:
    with pytest.raises(ValueError):
        percentile(values, q)


def test_summary_by_hand() -> None:
    # Sorted 0, 50, 100: mean 150 / 3, p50 the middle one, p90 at position 1.8: 50 + 0.8 * 50.
    assert summarise([100.0, 0.0, 50.0], n_failed=2) == Summary(
        n_expected=5,
        n_scored=3,
        n_failed=2,
        n_unjudged=0,
        mean=50.0,
        p50=50.0,
        p90=90.0,
        min=0.0,
        max=100.0,
        mean_failed_as_0=30.0,
    )


def test_nothing_scored_has_counts_but_no_statistics() -> None:
    found = summarise([], n_failed=3, n_expected=5, n_unjudged=1)
    assert found == Summary(5, 0, 3, 1, None, None, None, None, None, mean_failed_as_0=0.0)
    assert summarise([], n_expected=5, n_unjudged=1).mean_failed_as_0 is None


def test_impossible_summary_is_refused() -> None:
    with pytest.raises(ValueError, match="2 items expected, but 3 counted"):
        summarise([1.0, 2.0], n_failed=1, n_expected=2)
    with pytest.raises(ValueError, match="not a finite number"):
        summarise([1.0, math.nan])


@given(finite_scores)
def test_summary_is_numpys(scores: list[float]) -> None:
    summary = summarise(scores)
    assert summary.mean == pytest.approx(np.mean(scores))
    assert [summary.min, summary.p50, summary.p90, summary.max] == list(
        np.percentile(scores, [0, 50, 90, 100])
    )


# -- reading judgments --------------------------------------------------------------------------------


def test_results_are_scored_and_failures_counted_apart(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "results.jsonl",
        item("a", (3, "full"), (1, "none"), restore_score_100=75.0),  # 3 / 4
        item("b", (1, "partial"), error=None),
        failure("c"),
        "",
        {"id": "d", "answer": "an answer", "nuggets": None},
        {"id": "e", "answer": "an answer"},
    )
    assert read_outcomes(path) == {
        "a": 75.0,
        "b": 50.0,
        "c": Unscored.FAILED,
        "d": Unscored.UNJUDGED,
        "e": Unscored.UNJUDGED,
    }
    # Two scores, 50 and 75: mean and p50 62.5, p90 at position 0.9: 50 + 0.9 * 25 = 72.5.
    assert score_file(path) == Summary(5, 2, 1, 2, 62.5, 62.5, 72.5, 50.0, 75.0, 125 / 3)


def test_last_line_of_an_id_counts_and_an_error_outweighs_nuggets(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "r.jsonl",
        failure("a"),
        item("b", (1, "full")),
        item("a", (1, "partial")),
        item("a", (1, "partial")),
        {**failure("b"), "nuggets": nuggets((1, "full"))},
    )
    assert read_outcomes(path) == {"a": 50.0, "b": Unscored.FAILED}


@pytest.mark.parametrize("piped", [False, True])
def test_order_of_lines_chooses_between_no_two_verdicts(tmp_path: Path, piped: bool) -> None:
    """Equal lines are one, a changed answer is another subject; two verdicts on one answer are refused."""
    changed = item("b", (1, "none"), answer="now"), item("b", (1, "full"), answer="before")
    digests = item("c", (1, "none"), answer_digest="0a"), item("c", (1, "full"), answer_digest="0b")
    fine = [item("a", (1, "full")), *changed, *digests, item("a", (1, "full"))]
    expected = {"a": 100.0, "b": 100.0, "c": 100.0}
    for last, refused in ((None, False), (item("a", (1, "none")), True)):
        path = write_lines(tmp_path / "r.jsonl", *fine, *([last] if last else []))
        with path.open("rb") as file:
            reader, writer = os.pipe()
            os.write(writer, file.read())
            os.close(writer)
            source = f"/dev/fd/{reader}" if piped else str(path)
            if refused:
                with pytest.raises(
                    BadInput, match="7: 'a' has other labels on line 6; remove one of the two"
                ):
                    read_outcomes(source)
            else:
                assert read_outcomes(source) == expected
            os.close(reader)


@pytest.mark.parametrize("field", ["nuggets", "per_nugget", "judgments", "results"])
@pytest.mark.parametrize("label", ["coverage", "label", "cov"])
def test_other_spellings_of_the_release_are_understood(tmp_path: Path, field: str, label: str) -> None:
    rows = [{"id": "N1", "weight": 3, label: "full"}, {"id": "N2", "weight": 1, label: "partial"}]
    path = write_lines(tmp_path / "per_item.jsonl", {"qid": 7, field: rows})
    assert read_outcomes(path) == {"7": 87.5}  # (3 + 0.5) / 4


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\xef\xbb\xbf%s\r\n\r\n", "a"),  # a byte-order mark and Windows line ends
        (b"%s", "a"),  # no newline at the end
        (b"%s\n", "北京 2024 年房价"),
    ],
)
def test_other_ways_to_write_a_line_are_understood(tmp_path: Path, content: bytes, name: str) -> None:
    path, known_by = tmp_path / "r.jsonl", "id" if name == "a" else "fused_query"
    path.write_bytes(content % json.dumps({known_by: name, "nuggets": nuggets((1, "full"))}).encode())
    assert read_outcomes(path) == {name: 100.0}


def test_file_torn_at_any_byte_keeps_all_whole_lines(tmp_path: Path) -> None:
    path, told = tmp_path / "r.jsonl", list[str]()
    first, second = (json.dumps(item(name, (1, "full")), ensure_ascii=False).encode() for name in ("a", "城"))
    for cut in range(1, len(second)):
        path.write_bytes(first + b"\n" + second[:cut])
        assert read_outcomes(path, report=told.append) == {"a": 100.0}
    assert set(told) == {f"{path}:2: the last line is torn and was ignored"}


def test_stored_score_that_disagrees_is_reported(tmp_path: Path) -> None:
    told: list[str] = []
    path = write_lines(
        tmp_path / "r.jsonl",
        item("a", (1, "full"), restore_score_100=100.0000001),
        item("b", (1, "full"), restore_score_100=None),
        item("c", (1, "partial"), restore_score_100=51.0),
        item("d", (1, "full"), restore_score_100="50"),
        item("e", (1, "full"), restore_score_100=1e300),
    )
    assert read_outcomes(path, report=told.append)["c"] == 50.0
    assert told[0] == f"{path}:3: restore_score_100 is 51.0 here, its nuggets give 50.0"
    assert len(told) == 3


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{broken", "not valid JSON"),
        ('{"id": "a", "nuggets": [{"weight": NaN, "coverage": "full"}]}', "not valid JSON"),
        ("[1]", "not a JSON object"),
        ({"nuggets": nuggets((1, "full"))}, "neither id nor fused_query; the fields are nuggets"),
        ({"id": "a", "verdict": 1}, "neither judged nuggets nor an error; the fields are id, verdict"),
        ({"id": "a", "restore_score_100": 101}, "restore_score_100 is 101, not a number in [0, 100]"),
        ({"id": "a", "restore_score_100": -0.1}, "restore_score_100 is -0.1, not a number in [0, 100]"),
        ({"id": "a", "restore_score_100": "5"}, "restore_score_100 is '5', not a number in [0, 100]"),
        ({"id": "a", "restore_score_100": True}, "restore_score_100 is True, not a number in [0, 100]"),
        ({"id": "a", "nuggets": []}, "nuggets is not a list with at least one nugget"),
        ({"id": "a", "nuggets": {"N1": "full"}}, "nuggets is not a list with at least one nugget"),
        ({"id": "a", "nuggets": ["full"]}, "nuggets: nugget #1 is not an object"),
        (item("a", (1, "full"), (1, "fully")), "nugget 'N2': coverage 'fully' is not one of"),
        (item("a", (1, None)), "nugget 'N1': coverage None is not one of"),
        (item("a", (1, "full"), (0, "full")), "nugget 'N2': weight 0 is not a positive finite number"),
        (
            item("a", (None, "full")),
            "weight None is not a positive finite number (weights can come from --gold)",
        ),
        (item("a", (1e308, "full"), (1e308, "full")), "the weights are too large to add up"),
        ({"id": "a", "nuggets": nuggets((1, "full")) * 2}, "nuggets: nugget 'N1' occurs twice"),
    ],
)
def test_any_other_broken_line_is_refused_by_its_number(tmp_path: Path, line: object, problem: str) -> None:
    path = write_lines(tmp_path / "r.jsonl", item("ok", (1, "full")), line, item("ok2", (1, "full")))
    with pytest.raises(BadInput) as caught:
        read_outcomes(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert problem in str(caught.value)


# -- gold ---------------------------------------------------------------------------------------------


def gold_line(*ws: float, **names: Any) -> dict[str, Any]:
    rows = [{"id": f"N{i}", "text": "…", "weight": w} for i, w in enumerate(ws, 1)]
    return {**names, "gold": {"nuggets": rows}}


HINT = " (--skip-bad-gold leaves such lines out)"


def test_weights_come_from_the_gold_by_id_then_by_query(tmp_path: Path) -> None:
    gold = read_gold(
        write_lines(
            tmp_path / "gold.jsonl",
            gold_line(3, 1, id="a", fused_query="qa"),
            {"fused_query": "qb", "nuggets": [{"id": "N1", "weight": 2}]},
            gold_line(1, id="c", fused_query="qc"),
        )
    )
    path = write_lines(
        tmp_path / "r.jsonl",
        # The line's own weights, and the order of its nuggets, are of no account: 1 / (3 + 1).
        {
            "id": "a",
            "results": [{"id": "N2", "coverage": "full"}, {"id": "N1", "coverage": "none", "weight": 9}],
        },
        {"id": "x", "fused_query": "qb", "nuggets": [{"id": "N1", "label": "partial"}]},
        # The gold's own nuggets beside the judge's results: the labelled list is the one that counts.
        {"id": "c", "nuggets": [{"id": "N1", "text": "…"}], "results": [{"id": "N1", "coverage": "full"}]},
    )
    assert read_outcomes(path, gold) == {"a": 25.0, "x": 50.0, "c": 100.0}


def test_gold_says_how_many_are_expected(tmp_path: Path) -> None:
    gold = read_gold(write_lines(tmp_path / "g.jsonl", *(gold_line(1, id=name) for name in "abcd")))
    path = write_lines(tmp_path / "r.jsonl", item("a", (1, "full")), failure("b"))
    summary = score_file(path, gold)
    assert (summary.n_expected, summary.n_scored, summary.n_failed) == (4, 1, 1)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (item("a", (1, "full")), "nugget 'N2' of the gold was not judged"),
        (item("a", (1, "full"), (1, "full"), (1, "full")), "nugget 'N3' is not in the gold"),
        ({"id": "a", "results": [{"coverage": "full"}]}, "nugget '#1' is not in the gold"),
        (item("z", (1, "full")), "no gold for 'z'"),
        ({"query": "q?", "nuggets": nuggets((1, "full"))}, "no gold for 'q?'"),
        ({"query": "same", "nuggets": nuggets((1, "full"))}, "several different golds for the query 'same'"),
    ],
)
def test_judgments_that_do_not_fit_the_gold_are_refused(tmp_path: Path, line: object, problem: str) -> None:
    gold = read_gold(
        write_lines(
            tmp_path / "g.jsonl",
            gold_line(1, 1, id="a"),
            gold_line(1, id="b", fused_query="same"),
            gold_line(2, id="c", fused_query="same"),
        )
    )
    path = write_lines(tmp_path / "r.jsonl", line)
    with pytest.raises(BadInput) as caught:
        read_outcomes(path, gold)
    assert str(caught.value).startswith(f"{path}:1: {problem}")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([gold_line(1)], "1: neither id nor fused_query; the fields are gold"),
        ([gold_line(id="a")], f"1: gold.nuggets is not a list with at least one nugget{HINT}"),
        ([{"id": "a", "gold": None}], f"1: gold.nuggets is not a list with at least one nugget{HINT}"),
        ([gold_line(1, -2, id="a")], f"1: nugget 'N2': weight -2 is not a positive finite number{HINT}"),
        ([gold_line(1, id="a"), gold_line(1, id="a")], "2: the id 'a' occurs twice in the gold"),
        ([gold_line(1, id="a"), '{"id"'], "2: not valid JSON"),
    ],
)
def test_broken_gold_is_refused(tmp_path: Path, lines: list[object], problem: str) -> None:
    path = write_lines(tmp_path / "gold.jsonl", *lines)
    path.write_text(
        path.read_text().removesuffix("\n")
    )  # a torn gold is no gold: half of it would be missing
    with pytest.raises(BadInput) as caught:
        read_gold(path)
    assert str(caught.value) == f"{path}:{problem}"


def test_items_of_bad_gold_lines_are_left_out_and_reported(tmp_path: Path) -> None:
    told: list[str] = []
    path = write_lines(
        tmp_path / "gold.jsonl",
        gold_line(3, 1, id="a", fused_query="qa"),
        gold_line(id="b", fused_query="qb"),
        gold_line(1, None, fused_query="qc"),
    )
    gold = read_gold(path, skip_bad=True, report=told.append)
    assert told == [
        f"{path}:2: left out: gold.nuggets is not a list with at least one nugget",
        f"{path}:3: left out: nugget 'N2': weight None is not a positive finite number (weights can come from --gold)",
        f"{path}: 2 of 3 lines of gold are left out, and the items that they are about",
    ]
    judged = write_lines(
        tmp_path / "r.jsonl",
        item("a", (1, "full"), (1, "none")),
        item("b", (1, "full")),
        {"fused_query": "qc", "nuggets": nuggets((1, "full"))},
    )
    assert read_outcomes(judged, gold) == {"a": 75.0}
    assert score_file(judged, gold).n_expected == 1
    assert main([str(judged), "--gold", str(path)]) == 2
    assert main([str(judged), "--gold", str(path), "--skip-bad-gold"]) == 0
    rows = tmp_path / "r.csv"
    rows.write_text("id,nugget_id,coverage\na,N1,full\na,N2,none\nb,N1,full\n")
    assert read_outcomes(rows, gold) == {"a": 75.0}


# -- the command --------------------------------------------------------------------------------------


def test_files_are_tabled_and_the_exit_code_tells_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_lines(tmp_path / "good.jsonl", item("a", (3, "full"), (2, "partial"), (1, "none")))
    assert main([str(good)]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["expected", "scored", "failed", "mean", "p50", "p90", "min", "max", "file"]
    assert row.split() == ["1", "1", "0", *["66.667"] * 5, str(good)]
    assert header.index("file") == row.index(str(good)) < 80, "the numbers fit a narrow screen"
    bad = write_lines(tmp_path / "bad.jsonl", failure("a"), {"id": "b", "nuggets": None})
    assert main([str(good), str(bad)]) == 1
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["expected", "scored", "failed", "unjudged"]
    assert first.split()[:5] == ["1", "1", "0", "0", "66.667"]
    assert second.split()[:-1] == ["2", "0", "1", "1", "-", "0.000", *"----"]


def test_json_has_full_precision_and_an_empty_file_no_items(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_lines(tmp_path / "r.jsonl", item("a", (2, "full"), (1, "none")))
    assert main([str(path), str(write_lines(tmp_path / "empty.jsonl")), "--json"]) == 0
    row, empty = json.loads(capsys.readouterr().out)
    assert (row["file"], row["mean"]) == (str(path), 100 * (2 / 3))
    assert list(row) == ["file", *Summary.__dataclass_fields__]
    assert empty["n_expected"] == 0


def test_bad_input_is_one_clear_line_and_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, missing = write_lines(tmp_path / "good.jsonl", item("a", (1, "full"))), tmp_path / "none.jsonl"
    bad = write_lines(tmp_path / "bad.jsonl", item("a", (1, "ful")))
    problem = f"{bad}:1: nugget 'N1': coverage 'ful' is not one of full, partial, none"
    for words, said in (
        ([good, bad], problem),
        ([missing], f"{missing}: No such file or directory"),
        ([good, "--gold", missing], f"{missing}: No such file or directory"),
        ([tmp_path], f"{tmp_path}: holds no results.jsonl or per_item.jsonl"),
    ):
        assert main([*map(str, words)]) == 2
        assert capsys.readouterr() == ("", f"scorer: error: {said}\n")


@pytest.mark.parametrize("where", ["named", "in a folder"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device", "socket"])
def test_only_regular_files_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, where: str
) -> None:
    """Waiting for a pipe's writer never ends, and neither does /dev/zero."""
    path = tmp_path / "run" / "results.jsonl"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(path.parent):
            bound.bind(path.name)
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        path = Path("/dev/zero")
    words = [str(path)] if where == "named" else [str(path.parent)]
    assert main(words) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.count("\n") == 1
    if where == "named" and kind != "socket":
        assert said.startswith(f"scorer: error: {path}: not a regular file")


def test_pipe_of_the_shell_is_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", item("a", (1, "full")))
    command = f"{sys.executable} {scorer.__file__} --json <(cat {path}) /dev/stdin < {path}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert [row["mean"] for row in json.loads(done.stdout)] == [100.0, 100.0]


def test_names_of_files_cannot_steer_the_terminal(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = tmp_path / os.fsdecode(b"\x1b]0;title\x07\x1b[2J\xff")
    folder.mkdir()
    write_lines(folder / "results.jsonl", item("a", (1, "full")))
    write_lines(folder / "torn.jsonl", item("a", (1, "full")), "{").write_bytes(b"{")
    for words in (
        [str(folder)],
        [str(folder / "torn.jsonl")],
        [str(folder / "none")],
        [str(folder), "--json"],
    ):
        main(words)
        out, err = capsysbinary.readouterr()
        assert b"\x1b" not in out + err
        assert b"title" in out + err


# -- standing alone -----------------------------------------------------------------------------------


def test_scorer_imports_nothing_but_the_standard_library_and_orjson() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(Path(scorer.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"orjson"}


@pytest.mark.parametrize("flags", [["-I"], ["-I", "-S"]], ids=["as installed", "standard library only"])
def test_copy_of_the_file_runs_anywhere(tmp_path: Path, flags: list[str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy = shutil.copy(scorer.__file__, tmp_path / "my_scorer.py")
    path = write_lines(
        elsewhere / "r.jsonl", item("甲", (3, "full"), (1, "partial")), failure("b"), '{"id": "c"'
    )
    path.write_text(path.read_text(encoding="utf-8").removesuffix("\n"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *flags, copy, "r.jsonl", "--json"],
        cwd=elsewhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["mean"] == 87.5  # (3 + 0.5) / 4
    assert done.stderr == "scorer: r.jsonl:3: the last line is torn and was ignored\n"


@pytest.mark.parametrize("line", ['{"id": "a", "nuggets": [{"weight": NaN}]}', "{broken", '{"id": "\udcff"}'])
def test_standard_librarys_parser_refuses_what_orjson_refuses(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(line.encode("utf-8", "surrogateescape") + b"\n")
    for loads in (scorer._loads, scorer._stdlib_loads):
        monkeypatch.setattr(scorer, "_loads", loads)
        with pytest.raises(BadInput, match="1: not valid JSON"):
            read_outcomes(path)


_DEEP = "[" * 1000 + "]" * 1000
_NUGGET = '{"id":"n1","weight":%s,"coverage":%s}'


@pytest.mark.parametrize(
    "fields",
    [
        '"nuggets":[' + _NUGGET % (_DEEP, '"full"') + "]",
        '"nuggets":[' + _NUGGET % ("1", _DEEP) + "]",
        f'"restore_score_100":{_DEEP}',
        '"nuggets":[' + _NUGGET % ("1", '"full"') + f'],"restore_score_100":{_DEEP}',
        '"nuggets":[' + _NUGGET % ("1", '"full"') + f'],"answer":{_DEEP}',
    ],
    ids=["weight", "coverage", "score", "stored score", "answer"],
)
def test_deep_json_is_refused_by_line(tmp_path: Path, fields: str) -> None:
    path = write_lines(tmp_path / "r.jsonl", item("a", (1, "full")))
    with path.open("a", encoding="utf-8") as file:
        file.write(f'{{"id":"b",{fields}}}\n')
    with pytest.raises(BadInput, match="r.jsonl:2: the JSON is nested deeper than 100 levels"):
        read_outcomes(path)


def test_depth_that_other_fields_may_have_and_many_nuggets_are_read(tmp_path: Path) -> None:
    """The object, 98 lists and the empty one are 100 levels; 300 nuggets have more brackets than levels."""
    nuggets = [{"id": f"n{i}", "weight": 1, "coverage": "full"} for i in range(300)]
    trace: list[Any] = []
    for _ in range(98):
        trace = [trace]
    path = write_lines(tmp_path / "r.jsonl", {"id": "a", "nuggets": nuggets, "trace": trace})
    assert read_outcomes(path) == {"a": 100.0}
    write_lines(path, {"id": "a", "nuggets": nuggets, "trace": [trace]})
    with pytest.raises(BadInput, match="nested deeper"):
        read_outcomes(path)


def test_message_about_a_long_label_is_short(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", item("a", (1, "x" * 1_000_000)))
    with pytest.raises(BadInput) as refused:
        read_outcomes(path)
    assert len(refused.value.problem) < 500
    assert refused.value.problem.endswith("is not one of full, partial, none")


def test_items_without_an_answer_are_0_if_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Full is 100; three have no answer; another error stays a failure, an unjudged answer unjudged."""
    path = write_lines(
        tmp_path / "r.jsonl",
        item("a", (1, "full")),
        {"id": "b", "error": {"step": "candidate", "kind": "no_answer", "message": "the answer is null"}},
        {"id": "c", "error": {"step": "search/turn/3", "kind": "unusable_output", "message": "no <answer>"}},
        {"id": "d", "answer": " ", "nuggets": None},
        {"id": "e", "error": {"step": "judge/x", "kind": "unusable_output", "message": "not JSON"}},
        {"id": "f", "answer": "text", "nuggets": None},
    )
    found = score_file(path, empty_is_zero=True)
    assert (found.n_scored, found.n_failed, found.n_unjudged, found.mean) == (4, 1, 1, 25.0)
    assert found.mean_failed_as_0 == 20.0
    usual = score_file(path)
    assert (usual.n_scored, usual.n_failed, usual.mean, usual.mean_failed_as_0) == (1, 3, 100.0, 25.0)
    # As `cts judge` reads them, a null answer is empty and a stored score is a verdict: (0 + 40 + 80) / 3.
    more = [{"id": "a", "answer": None}, {"id": "b", "answer": "", "restore_score_100": 40}]
    other = write_lines(tmp_path / "other.jsonl", *more, {"id": "c", "restore_score_100": 80})
    assert score_file(other, empty_is_zero=True).mean == 40.0
    assert main([str(path), "--json", "--empty-answers", "zero"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["mean"] == 25.0
    assert main([str(path)]) == 1
    assert "failed=0" in capsys.readouterr().out
