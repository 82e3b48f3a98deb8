"""The paper's values as data, who plays in them, and ours beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, made_run

from cts_async.analysis.board import make_board
from cts_async.llm.catalog import load_catalogue
from cts_async.runs.finished import read_runs
from cts_async.runs.selection import find_runs
from cts_async.tables.diagnosis import board_interactions
from cts_async.tables.published import (
    Published,
    PublishedValue,
    compare_with_paper,
    is_hard518,
    paper,
    paper_name,
)

PAPER = Path(__file__).resolve().parents[3] / "shared" / "papers" / "cts-paper.txt"

# --- The data are the paper's


@pytest.fixture(scope="module")
def printed() -> dict[int, list[list[str]]]:
    """The cells of every table of the paper, by row."""
    if not PAPER.is_file():
        pytest.skip(f"the paper's text is not here ({PAPER})")
    found: dict[int, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in PAPER.read_text(encoding="utf-8").splitlines():
        if caption := re.match(r"Table (\d+): ", line):
            rows = found[int(caption[1])] = []
        elif "\t" in line:
            rows.append([cell.strip() for cell in line.split("\t")])
        elif rows:
            rows = []
    return found


def numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", cell)]


def by_budget(rows: Sequence[Sequence[str]]) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows under a line or a first cell that says k, each with k and without that cell."""
    k = 0
    for row in rows:
        if whole := re.fullmatch(r"\$?k = (\d)\$?", row[0]):
            k = int(whole[1])
            continue
        if row[0].isdigit():
            k = int(row[0])
        if k:
            yield k, row[1:] if row[0].isdigit() or not row[0] else row


def test_tables_2_and_6_are_as_printed(printed: dict[int, list[list[str]]]) -> None:
    rows = [(2, 1, row) for row in printed[2][1:]] + [(6, k, row) for k, row in by_budget(printed[6])]
    expected = []
    for table, k, (system, mean, p50, p90) in rows:
        values = numbers(mean)
        row = {"table": table, "system": system, "k": k, "mean": values[0]}
        row |= {"delta": values[1]} if len(values) > 1 else {"k": 0}
        expected.append(row | {"p50": float(p50), "p90": float(p90)})
    orig = expected[0]
    # Table 6 repeats the row of orig for both budgets.
    assert [{**row, "table": 2} for row in expected if row["k"] == 0] == [orig] * 3
    assert paper()["scores"] == [orig, *(row for row in expected if row["k"])]


def test_table_3_is_as_printed(printed: dict[int, list[list[str]]]) -> None:
    expected = []
    for system, delta, interval in printed[3][1:]:
        low, high = numbers(interval)
        row = {"table": 3, "system": system, "k": 1, "delta": float(delta), "low": low, "high": high}
        expected.append(row)
    assert paper()["intervals"] == expected


def test_table_4_is_as_printed(printed: dict[int, list[list[str]]]) -> None:
    names = printed[4][0][1:]
    assert names == ["ua_unknown_rate", "cq_region_rate"]
    assert paper()["answers"] == [
        {"table": 4, "system": system, "k": 1, **dict(zip(names, map(float, values), strict=True))}
        for system, *values in printed[4][1:]
    ]


def test_tables_5_and_10_are_as_printed(printed: dict[int, list[list[str]]]) -> None:
    def row(table: int, system: str, k: int, turn: int, only: str, unknown: str) -> dict[str, Any]:
        where = {"table": table, "system": system, "k": k, "turn": turn}
        return where | {"region_only": int(only), "region_only_unknown": float(unknown)}

    of_one = [row(5, system, 1, 1, *values) for system, *values in printed[5][1:]]
    by_turn = []
    for k, (who, only, unknown) in by_budget([[cell for cell in row if cell] for row in printed[10][1:]]):
        system, turn = who.strip("()").split(", ")
        by_turn.append(row(10, system, k, int(turn), only, unknown))
    assert by_turn[:7] == [{**one, "table": 10} for one in of_one]
    assert paper()["regions"] == of_one + by_turn[7:]


def test_table_7_is_as_printed(printed: dict[int, list[list[str]]]) -> None:
    names = [name.replace("=", "_") for name in printed[7][0][1:]]
    assert paper()["known"] == [
        {"table": 7, "system": system, "k": k}
        | {name: float(value) for name, value in zip(names, values, strict=True) if value != "\N{EN DASH}"}
        for k, (system, *values) in by_budget(printed[7])
    ]


def test_table_8_is_as_printed_and_at_k_2_contradicts_table_10(printed: dict[int, list[list[str]]]) -> None:
    expected = []
    for setting, interval, _ in printed[8][1:]:
        low, high = map(float, interval.split("\N{EN DASH}"))
        k = int(numbers(setting)[0])
        expected.append({"table": 8, "system": "all", "k": k, "lowest": low, "highest": high})
    assert paper()["region_ranges"] == expected
    of_turns = []
    for row in expected:
        rates = [one["region_only_unknown"] for one in paper()["regions"] if one["k"] == row["k"]]
        of_turns.append((min(rates), max(rates)))
    assert [(row["lowest"], row["highest"]) for row in expected] == [
        (0.75, 0.869),
        (0.8, 0.917),
        (0.692, 1.0),
    ]
    assert of_turns == [(0.75, 0.869), (0.787, 0.917), (0.692, 1.0)]


def test_table_9_is_as_printed(printed: dict[int, list[list[str]]]) -> None:
    assert [re.sub("<.*?>", "", name) for name in printed[9][0][1:4]] == ["orig", "ERNIE- $k1$", "GPT- $k1$"]
    systems = (("orig", 0), ("ERNIE", 1), ("GPT", 1))
    assert paper()["judges"] == [
        {"table": 9, "judge": judge, "system": system, "k": k, "mean": float(value)}
        for judge, *values, _ in printed[9][1:]
        for (system, k), value in zip(systems, values, strict=True)
    ]


def test_table_11_is_as_printed(printed: dict[int, list[list[str]]]) -> None:
    names = ("ua_agreement", "rewrite_similarity", "unknown_preservation")
    assert paper()["support"] == [
        {"table": 11, "pair": pair.split(" vs. "), **dict(zip(names, map(float, values), strict=True))}
        for pair, *values in printed[11][1:]
    ]


def test_models_and_captions_are_as_printed(printed: dict[int, list[list[str]]]) -> None:
    text = PAPER.read_text(encoding="utf-8")
    for one in paper()["models"]:
        assert one["model"] in text
    plain = re.sub(r"[`$]|\\\}|<.*?>", "", text).replace("\\in \\{", "∈ {").replace("{2, 3\\", "{2, 3")
    plain = plain.replace("∈ {2, 3", "∈ {2, 3}").replace("}}", "}")
    for table, caption in paper()["captions"].items():
        assert f"Table {table}: {caption}." in plain, caption


# --- Who is who


@pytest.mark.parametrize(
    ("name", "model", "system"),
    [
        ("gpt", None, "GPT"),
        ("gpt", "gpt-6", "GPT"),  # paper_name so: what the id says is a departure
        ("mine", "openai/gpt-5.2-2025-12-11", "GPT"),
        ("openrouter:openai/gpt-5.2", None, "GPT"),
        ("gpt:gpt-5-mini", "gpt-5-mini", None),
        ("mine", "gpt-5.2-mini", None),
        ("Claude-Sonnet-4.5", None, "Claude"),
        ("eb", None, "ERNIE"),
        ("mine", "Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen"),
        ("local", "SmolLM2-135M-Instruct", None),
        ("my_lab.ask", None, None),
    ],
)
def test_model_is_recognised_by_name_or_id(name: str, model: str | None, system: str | None) -> None:
    assert paper_name(name, model) == system


def test_ids_of_the_catalogue_are_the_papers_models() -> None:
    catalogue, environ = load_catalogue(None), {"WEBDANCER_BASE_URL": "http://127.0.0.1:9"}
    ids = {one["system"]: catalogue.resolve(one["names"][0], environ).model for one in paper()["models"]}
    # This one's id does not say which version answers.
    assert ids.pop("DeepSeek") == "deepseek-chat"
    assert {system: paper_name("mine", id) for system, id in ids.items()} == {
        system: system for system in ids
    }


# --- Ours beside them


def compared(*folders: Path) -> Published:
    board = make_board(read_runs(find_runs([*map(str, folders)]), print))
    asked, _ = board_interactions(board, None)
    return compare_with_paper(board, asked)


def values(found: Published, table: int) -> list[PublishedValue]:
    return [one for one in found.values if one.table == table]


def scored(*scores: float, **more: Any) -> list[Row]:
    return [Row(f"q{i}", score=score, **more) for i, score in enumerate(scores)]


def test_differences_are_to_orig_and_lie_in_an_interval_or_not(tmp_path: Path) -> None:
    """Ten instances gain 1, 3 or 2 points, from 22.5 to 24.5 on average; the paper's GPT gains 7.040."""
    made_run(tmp_path, label="orig", rows=scored(*[20, 25] * 5), data="hard518")
    made_run(tmp_path, label="gpt-k1", rows=scored(21, 28, *[22, 27] * 4), data="hard518")
    found = compared(tmp_path)
    (delta,) = [one for one in values(found, 2) if one.measure == "delta"]
    assert (delta.system, delta.k, delta.run, delta.n) == ("GPT", 1, "gpt-k1", 10)
    assert (delta.published, delta.ours) == (7.040, pytest.approx(2.0))
    # sd sqrt(2 / 10), so a standard error of .14: about 2 of them on either side.
    assert (delta.low, delta.high) == pytest.approx((1.7, 2.3), abs=0.05)
    assert delta.difference == pytest.approx(-5.04)
    assert delta.inside is False
    (again,) = values(found, 3)
    assert (again.published_low, again.published_high, again.ours) == (5.566, 8.578, delta.ours)
    assert again not in found.counted
    mean = next(one for one in values(found, 2) if (one.system, one.measure) == ("orig", "mean"))
    assert (mean.published, mean.ours) == (19.434, 22.5)
    median = next(one for one in values(found, 2) if (one.system, one.measure) == ("GPT", "p50"))
    # In more than a third of the resamples more than half are 22, and as often 27.
    assert (median.published, median.ours, median.low, median.high) == (25.0, 24.5, 22.0, 27.0)
    assert median.inside is True


def test_published_value_is_inside_up_to_half_its_last_digit() -> None:
    def value(ours: float, published: float, decimals: int) -> PublishedValue:
        return PublishedValue(2, "GPT", 1, "gpt-k1", "p50", published, ours, ours, ours, 9, decimals=decimals)

    assert value(70 / 3, 23.333, 3).inside is True
    assert value(70 / 3, 23.334, 3).inside is False
    assert value(26.474, 26.47, 2).inside is True


def test_table_9_is_of_each_judge(tmp_path: Path) -> None:
    """orig: all none, or all partial by gpt; gpt-k1: half full, or all full. `kimi` judges in no table."""
    orig = [Row(f"q{i}", labels={"ernie": "n", "gpt": "p", "kimi": "f"}) for i in range(4)]
    ours = [Row(f"q{i}", labels={"ernie": "fn"[i % 2], "gpt": "f", "kimi": "f"}) for i in range(4)]
    made_run(tmp_path, label="orig", rows=orig)
    made_run(tmp_path, label="gpt-k1", rows=ours)
    made_run(tmp_path, label="gpt-k2", rows=ours)
    found = values(compared(tmp_path), 9)
    assert [(one.judge, one.system, one.published, one.ours, one.repeated) for one in found] == [
        ("ERNIE", "orig", 19.43, 0.0, True),
        ("ERNIE", "GPT", 26.47, 50.0, True),
        ("GPT", "orig", 27.74, 50.0, False),
        ("GPT", "GPT", 29.79, 100.0, False),
    ]


def test_table_11_is_of_the_smallest_k_of_both(tmp_path: Path) -> None:
    """Two of three answers agree; rewrites: 1, 1 and 2 * 5 / 20; all of three unknown answers are kept."""
    asked = {"questions": ["Where?"], "blurred_query": "rents", "score": 0.0}
    ernie = [
        Row("q1", answers=["unknown"], rewritten_query="rents", **asked),
        Row("q2", answers=["unknown"], rewritten_query="rents", **asked),
        Row("q3", answers=["Berlin"], rewritten_query="rents in Berlin", **asked),
    ]
    gpt = [*ernie[:2], Row("q3", answers=["unknown"], rewritten_query="rents", **asked)]
    for k in (1, 2):
        made_run(tmp_path, label=f"gpt-k{k}", rows=ernie, name=f"gpt-k{k}")
        made_run(tmp_path, label=f"gpt-k{k}", rows=gpt, name=f"gpt-k{k}+s", players={"support": "gpt"})
    found = values(compared(tmp_path), 11)
    assert [(one.system, one.k, one.n, one.measure, one.published) for one in found] == [
        ("GPT-ERNIE vs. GPT-GPT", 1, 3, "ua_agreement", 0.865),
        ("GPT-ERNIE vs. GPT-GPT", 1, 3, "rewrite_similarity", 0.771),
        ("GPT-ERNIE vs. GPT-GPT", 1, 3, "unknown_preservation", 0.988),
    ]
    assert [one.ours for one in found] == pytest.approx([2 / 3, 2.5 / 3, 1.0])
    # Of 27 resamples of three instances one has q3 thrice, one never has it in 8.
    # The third value is the same in all of them: no interval.
    assert [(one.low, one.high) for one in found] == [(0.0, 1.0), (0.5, 1.0), (None, None)]
    assert [one.inside for one in found] == [True, True, None]


def test_run_with_the_papers_roles_stands_for_its_system(tmp_path: Path) -> None:
    rows = scored(10, 20, questions=["Which city?"], answers=["unknown"])
    made_run(tmp_path, label="gpt-k1", rows=rows, name="a")
    made_run(tmp_path, label="gpt-k1", rows=rows, name="b", players={"support": "kimi"})
    found = compared(tmp_path)
    assert {one.run for one in found.values} == {"a", "a, turn 1"}
    assert [one for one in found.departures if "support" in one] == []
    (tmp_path / "a" / "run.json").unlink()
    assert "support kimi instead of ERNIE" in compared(tmp_path / "b").departures


def test_other_schemes_and_budgets_are_not_the_papers(tmp_path: Path) -> None:
    rows = scored(10, 20)
    made_run(tmp_path, label="gpt-at-cot-respond-k1", rows=rows, scheme="at-cot", mode="respond")
    made_run(tmp_path, label="gpt-k4", rows=rows)
    made_run(tmp_path, label="local-k1", rows=rows)
    assert compared(tmp_path) == Published((), ())


def test_departures_name_the_runs_that_they_are_of(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=scored(1, 2), players={"agent": "kimi"})
    made_run(tmp_path, label="gpt-k1", rows=scored(1, 2, 3), players={"support": "gpt"})
    board = make_board(read_runs(find_runs([str(tmp_path)]), print))
    assert compare_with_paper(board, []).departures == (
        "the data are made instead of Hard518",
        "n = 2 instead of 518 (orig)",
        "agent kimi instead of WebDancer (orig)",
        "n = 3 instead of 518 (gpt-k1)",
        "support gpt instead of ERNIE (gpt-k1)",
    )
    assert not is_hard518(board)


def test_other_judge_is_a_departure(tmp_path: Path) -> None:
    rows = [Row("q1", labels={"kimi": "f"})]
    made_run(tmp_path, label="orig", rows=rows, data="hard518", n_expected=518)
    board = make_board(read_runs(find_runs([str(tmp_path)]), print))
    assert is_hard518(board)
    assert compare_with_paper(board, []).departures == ("n = 1 instead of 518", "judge kimi instead of ERNIE")


def test_answers_of_the_release_are_recognised_by_their_names(tmp_path: Path) -> None:
    for name in ("ebk1", "orig"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "per_item.jsonl").write_text(
            "".join(
                f'{{"id": "q{i}", "judge": "ernie", "nuggets": '
                f'[{{"id": "N1", "weight": 1, "coverage": "{"full" if i and name == "ebk1" else "none"}"}}]}}\n'
                for i in range(518)
            )
        )
    board = make_board(read_runs(find_runs([str(tmp_path)]), print))
    assert is_hard518(board)
    found = compare_with_paper(board, [])
    assert (found.departures, found.other_models) == ((), ())
    delta = next(one for one in found.values if one.measure == "delta")
    assert (delta.system, delta.k, delta.published, delta.ours) == ("ERNIE", 1, 4.026, 100 * 517 / 518)
