"""Cheaper tiers and caches from the command line: asking for them, waiting, and what is paid and said."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from typed_commands import Cts
from written_files import read_lines

RUN = ("run", "--all", "fake", "-k", "1", "--limit", "2", "--no-orig", "-q", "--name", "r")
TABLE = """
[models.fake]
base_url = "{url}"
model = "fake-1"
input_usd_per_mtok = 1.0
output_usd_per_mtok = 10.0
cached_input_usd_per_mtok = 0.1
[models.fake.tiers.flex]
price = 0.5
params = {{ service_tier = "flex" }}
waits = "minutes"
[models.fake.tiers.batch]
price = 0.4
waits = "a day"

[models.plain]
base_url = "{url}"
model = "plain-1"
input_usd_per_mtok = 1.0
output_usd_per_mtok = 10.0
"""


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Remote]:
    with provider_process() as remote:
        (tmp_path / "cts.toml").write_text(TABLE.format(url=remote.url))
        yield remote


def in_run(tmp_path: Path, file: str) -> dict[str, Any]:
    return dict(json.loads((tmp_path / "runs" / "r" / file).read_text()))


def totals(tmp_path: Path) -> dict[str, int]:
    return dict(in_run(tmp_path, "summary.json")["tokens"]["fake-1"])


def test_a_cheap_run_asks_every_step_in_the_tier_and_pays_half(
    provider: Remote, tmp_path: Path, cts: Cts
) -> None:
    provider.set(no_capacity=3)
    assert cts(*RUN, "--cheap").code == 0
    seen = provider.seen()
    assert {request.tier for request in seen} == {"flex"}
    assert {"clarify", "answer", "rewrite", "agent", "judge"} <= {request.role for request in seen}
    # Three waits for capacity, and no failure.
    assert sum(request.fault == "429" for request in seen) == 3
    summary, used = in_run(tmp_path, "summary.json"), totals(tmp_path)
    assert (summary["n_failed"], used["input@flex"], used["output@flex"]) == (
        0,
        used["input"],
        used["output"],
    )
    assert summary["cost_usd"] == pytest.approx(0.5 * (used["input"] + 10 * used["output"]) / 1e6)
    manifest = in_run(tmp_path, "run.json")
    assert manifest["tiers"] == {"fake": "flex"}
    assert manifest["prices"]["fake-1"] == {
        "input": 1.0,
        "output": 10.0,
        "cached": 0.1,
        "@flex": 0.5,
        "@batch": 0.4,
    }


def test_a_step_of_the_tier_is_the_same_step_live(provider: Remote, tmp_path: Path, cts: Cts) -> None:
    assert cts(*RUN, "--cheap").code == 0
    n_calls = len(provider.seen())
    assert cts(*RUN).code == 0
    assert len(provider.seen()) == n_calls
    # What was paid in the tier costs what it cost.
    used = totals(tmp_path)
    usd = 0.5 * (used["input"] + 10 * used["output"]) / 1e6
    assert in_run(tmp_path, "summary.json")["cost_usd"] == pytest.approx(usd)


def test_replies_served_as_default_are_paid_in_full_and_said(
    provider: Remote, tmp_path: Path, cts: Cts
) -> None:
    provider.set(served_tier="default")
    done = cts(*RUN, "--cheap")
    used, summary = totals(tmp_path), in_run(tmp_path, "summary.json")
    assert set(used) == {"input", "output"}
    assert summary["cost_usd"] == pytest.approx((used["input"] + 10 * used["output"]) / 1e6)
    n = len(provider.seen())
    assert summary["other_tiers"] == {"fake-1": {"default": n}}
    assert f"Not in the tier asked for: {n} of {n} replies of fake-1 (by their word: default)" in done.out


def test_a_budget_counts_what_the_tier_costs(provider: Remote, tmp_path: Path, cts: Cts) -> None:
    assert cts(*RUN, "--cheap", "--no-judge").code == 0
    used = totals(tmp_path)
    spent = 0.5 * (used["input"] + 10 * used["output"]) / 1e6
    for directory in (tmp_path / "runs").iterdir():
        (directory / "results.jsonl").unlink()  # to be resumed from the journal
    done = cts(*RUN, "--cheap", "--no-judge", "--max-usd", str(spent * 1.01))
    assert done.code == 0, done.err


def test_a_model_without_the_tier_is_asked_live_and_one_line_says_so(provider: Remote, cts: Cts) -> None:
    done = cts("plan", "--all", "plain", "--cheap", "--limit", "1")
    assert (
        "note: plain has no cheaper tier of the ordinary call and is asked live, at its full price "
        "([models.plain.tiers.NAME] in cts.toml adds one)"
    ) in done.err.splitlines()


def test_a_tier_that_the_server_refuses_stops_the_run_with_one_line(provider: Remote, cts: Cts) -> None:
    provider.set(refused_tier="flex")
    done = cts(*RUN, "--cheap")
    assert done.code == 75
    assert "the tier flex is refused for fake-1: ask it live, without --cheap" in done.err
    assert len(provider.seen()) <= 2


def test_plan_shows_live_cheap_and_batch_side_by_side(provider: Remote, cts: Cts) -> None:
    planned = json.loads(cts("plan", "--all", "fake", "--limit", "2", "--no-orig", "--json").out)
    live, cheap, batch = planned["ways"]
    assert live["cost_usd"] == planned["total"]["cost_usd"]
    assert cheap["cost_usd"] == pytest.approx(0.5 * live["cost_usd"], abs=1e-6)
    judging = sum(steps["cost_usd"] for steps in planned["steps"] if steps["step"] == "judge")
    # Only judging can wait for a batch: it costs 0.4, all else what it did.
    assert batch["cost_usd"] == pytest.approx(live["cost_usd"] - 0.6 * judging, abs=2e-6)
    assert [way["waits"] for way in planned["ways"]] == [[], ["minutes"], ["a day"]]
    # A cheap plan is the cheap one's cost, beside the same three.
    words = ("plan", "--all", "fake", "--limit", "2", "--no-orig", "--cheap", "--json")
    cheaply = json.loads(cts(*words).out)
    assert cheaply["total"]["cost_usd"] == pytest.approx(cheap["cost_usd"], abs=1e-6)
    assert [way["cost_usd"] for way in cheaply["ways"]] == pytest.approx(
        [way["cost_usd"] for way in planned["ways"]], abs=2e-6
    )
    printed = cts("plan", "--all", "fake", "--limit", "2", "--no-orig").out
    assert re.search(r"way +option +cost +of live +models +waits", printed)
    assert re.search(r"cheap +--cheap +\$\S+ +50% +fake flex +minutes", printed)


def test_judging_shows_the_same_before_it_begins(provider: Remote, cts: Cts) -> None:
    assert cts(*RUN, "--no-judge").code == 0
    foreseen = json.loads(cts("judge", "runs/r", "--judge", "fake", "--dry-run", "--json").out)
    live, cheap, batch = (way["cost_usd"] for way in foreseen["ways"])
    assert (cheap, batch) == (pytest.approx(0.5 * live, abs=1e-6), pytest.approx(0.4 * live, abs=1e-6))


def test_a_batch_command_foresees_the_price_of_batches(provider: Remote, tmp_path: Path, cts: Cts) -> None:
    assert cts(*RUN, "--no-judge").code == 0
    with (tmp_path / "cts.toml").open("a") as file:
        # It has batches of another model only: no way to ask this one.
        file.write('[models.plain.tiers.batch]\nprice = 0.5\nmodels = ["plain-2"]\n')
    judge = ("judge", "runs/r", "--dry-run", "--json")
    live = json.loads(cts(*judge, "--judge", "fake").out)
    batch = json.loads(cts(*judge, "--judge", "fake", "--batch").out)
    assert batch["total"]["cost_usd"] == pytest.approx(0.4 * live["total"]["cost_usd"], abs=1e-6)
    assert batch["ways"] == live["ways"]
    assert "ways" not in json.loads(cts(*judge, "--judge", "plain").out)
    refused = cts(*judge, "--judge", "fake", "--batch-fallback", "live")
    assert refused.code == 2
    assert "--batch-fallback live is about what a batch has no reply to; add --batch" in refused.err


def test_cached_tokens_are_paid_at_their_price_and_shown(provider: Remote, tmp_path: Path, cts: Cts) -> None:
    provider.set(caches=256)
    done = cts("run", "--all", "fake", "--limit", "1", "--no-orig", "-q", "--name", "r")
    assert done.code == 0
    used = totals(tmp_path)
    # The agent's turns repeat its instructions and all turns before.
    assert used["cached"] > 0
    usd = (used["input"] - 0.9 * used["cached"] + 10 * used["output"]) / 1e6
    assert in_run(tmp_path, "summary.json")["cost_usd"] == pytest.approx(usd)
    assert cts("export", "runs/r", "--layout", "csv", "--out", "csv").code == 0
    with (tmp_path / "csv" / "instances.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (int(row["cached_tokens"]), float(row["cost_usd"])) == (used["cached"], pytest.approx(usd))
    share = round(100 * used["cached"] / used["input"])
    assert f"Input read from caches: fake-k1 {share}%" in done.out
    turns = [
        line for line in read_lines(tmp_path / "runs/r/steps.jsonl") if "cached" in line.get("usage", {})
    ]
    assert {line["step"].split("/")[0] for line in turns} <= {"search", "judge"}


def test_doctor_says_which_tier_a_reply_names(provider: Remote, cts: Cts) -> None:
    asked = ("doctor", "--config", "cts.toml", "--json", "--ask", "fake")
    assert tier_found(cts(*asked, "--cheap").out) == (
        True,
        "the reply was served in flex, at 50% of the price",
    )
    provider.set(served_tier="default")
    assert tier_found(cts(*asked, "--cheap").out) == (
        None,
        "asked in flex, but the reply names the tier default: such replies are priced in full",
    )


def tier_found(printed: str) -> tuple[Any, Any]:
    (finding,) = [row for row in json.loads(printed) if row["name"].startswith("tier ")]
    return finding["ok"], finding["text"]
