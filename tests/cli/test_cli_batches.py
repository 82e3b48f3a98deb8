"""`--batch` and `--submit` as they are typed: killed, interrupted, submitted, collected; mistakes; budgets; status."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fake_batches import RemoteBatches, batches_process
from forked_commands import Command, Start, forked_commands
from typed_commands import Cts, cts_in

from benchmarks.batch_crash import Toll, killed_runs, write_candidates
from cts_async.engine.journal import read_records
from cts_async.watch.live import idle_state, live_of

MODELS = """
[models.fake]
base_url = "{url}"
model = "fake-1"
input_usd_per_mtok = 1.0
output_usd_per_mtok = 10.0
params = {{ max_tokens = 100 }}

[models.fake.tiers.batch]
price = 0.5

[models.plain]
base_url = "{url}"
model = "fake-2"

[models.some]
base_url = "{url}"
model = "fake-3"
tiers = {{ batch = {{ price = 0.5, models = ["fake-4"] }} }}
"""


class Place:
    """A folder with gold and candidates, a provider, and commands that judge there."""

    def __init__(self, here: Path, provider: RemoteBatches, start: Start) -> None:
        self.here, self.provider, self._start = here, provider, start
        self.out = here / "out"
        (here / "cts.toml").write_text(MODELS.format(url=provider.url))
        self.words = [word for word in write_candidates(here, 0, self.out) if word != "--batch"]

    def start(self, *words: str) -> Command:
        return self._start([*self.words, *words], self.here)

    def judge(self, *words: str) -> tuple[int, str]:
        """The exit code and the last line that a command prints."""
        command = self.start(*words)
        code = command.wait()
        printed = command.output.read_text()
        assert "Traceback" not in printed
        return code, printed.splitlines()[-1]


@pytest.fixture(scope="module")
def provider() -> Iterator[RemoteBatches]:
    with batches_process() as remote:
        yield remote


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    with forked_commands() as start_command:
        yield start_command


@pytest.fixture
def place(tmp_path: Path, provider: RemoteBatches, start: Start) -> Place:
    provider.set(duration_s=0.0)
    return Place(tmp_path, provider, start)


def until_batches(place: Place, n: int) -> None:
    deadline = time.monotonic() + 20
    while place.provider.stats()["batches"] < n:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_submitted_interrupted_and_collected(place: Place) -> None:
    place.provider.set(duration_s=60.0)
    before = place.provider.stats()["batches"]
    code, line = place.judge("--submit")
    assert code == 75
    assert line.startswith("cts: submitted 60 requests in 1 batch (batch_")
    assert line.endswith("); the same command collects")
    state = idle_state(place.out)
    assert state.batches[:2] == (1, 60)
    assert "; 1 batch of 60 requests handed in " in state.line(time.time())
    assert state.as_json()["batches"]["n_requests"] == 60
    # Waiting for it is ended by Ctrl-C, with nothing lost; meanwhile another process sees it.
    command = place.start("--batch")
    deadline = time.monotonic() + 20
    live = None
    while not live or not live.get("batches"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        live = live_of(place.out)
    (batch,) = live["batches"]
    assert (batch["state"], batch["n_requests"], batch["n_done"]) == ("in_progress", 60, 0)
    command.signal(signal.SIGINT)
    assert command.wait() == 75
    place.provider.set(duration_s=0.0)
    assert place.judge("--batch")[0] == 0
    assert place.provider.stats()["batches"] == before + 1
    lines = list(read_records(place.out / "per_item.jsonl"))
    assert len(lines) == 60
    assert all(line["restore_score_100"] is not None for line in lines)
    assert idle_state(place.out).batches == (0, 0, 0.0)
    # Half of the price of the tokens that were charged.
    summary = json.loads((place.out / "summary.json").read_text())
    usage = [record["usage"] for record in read_records(place.out / "steps.jsonl")]
    full_usd = sum(tokens["input"] * 1.0 + tokens["output"] * 10.0 for tokens in usage) / 1e6
    assert summary["cost_usd"] == pytest.approx(full_usd / 2, rel=1e-3)


def test_what_is_handed_in_is_not_asked_again_without_a_word(place: Place) -> None:
    place.provider.set(duration_s=60.0)
    assert place.judge("--submit")[0] == 75
    words = [word for word in place.words if word != "-q"]
    live = cts_in(place.here, *words, "--limit", "1")
    assert live.returncode == 0, live.stderr
    assert (
        "out: 1 batch (60 requests) is handed in; with --batch this command collects them, without it the same requests "
        "are asked live, and paid, again\n"
    ) in live.stderr
    # Another model makes another version, whose ledger is its own.
    (place.here / "cts.toml").write_text(MODELS.format(url=place.provider.url).replace("fake-1", "fake-7"))
    other = cts_in(place.here, *words, "--submit")
    assert other.returncode == 75
    assert (
        "out: 1 batch (60 requests) is handed in with other settings; the command that did so collects, and not this "
        "one\n"
    ) in other.stderr
    # A version that is resumed was told so when it began.
    resumed = cts_in(place.here, *words, "--submit")
    assert "handed in with other settings" not in resumed.stderr


def test_two_judges_of_one_account_are_both_stopped_and_both_collected(place: Place) -> None:
    place.provider.set(duration_s=60.0)
    n = place.provider.stats()["batches"]
    # The same address is the same account; another model, as equal requests to one model are one line.
    models = MODELS.format(url=place.provider.url)
    first_model, _, _ = models.partition("[models.plain]")
    second_model = first_model.replace("models.fake", "models.second-fake").replace("fake-1", "fake-9")
    (place.here / "cts.toml").write_text(models + second_model)
    judges = ("--batch", "--judge", "second-fake")
    command = place.start(*judges)
    until_batches(place, n + 2)
    time.sleep(0.5)
    command.signal(signal.SIGTERM)
    assert command.wait() == 75
    place.provider.set(duration_s=0.0)
    assert place.judge(*judges)[0] == 0
    stats = place.provider.stats()
    assert stats["batches"] == n + 2
    assert len(list(read_records(place.out / "judgments" / "second-fake.jsonl"))) == 60


def test_gold_is_extracted_by_one_batch_once_all_is_searched(place: Place) -> None:
    n = place.provider.stats()["batch_requests"]
    words = ["gold", "--all", "fake", "--limit", "3", "--out", "g.jsonl", "--batch", "--trust-config", "-q"]
    command = place._start(words, place.here)
    assert command.wait() == 0, command.output.read_text()
    assert len(list(read_records(place.here / "g.jsonl"))) == 3
    assert place.provider.stats()["batch_requests"] == n + 3


def test_budget_forbids_what_it_cannot_pay(place: Place) -> None:
    """A request may cost some 800 tokens of input and 100 of output: $0.0009 at half the price."""
    before = place.provider.stats()["batch_requests"]
    code, line = place.judge("--batch", "--max-usd", "0.01")
    assert code == 75
    assert "the budget is spent" in line
    n_requests = place.provider.stats()["batch_requests"] - before
    assert 0 < n_requests < 60
    assert json.loads((place.out / "summary.json").read_text())["cost_usd"] <= 0.01


def test_second_copy_is_refused_while_the_first_one_waits(place: Place) -> None:
    place.provider.set(duration_s=60.0)
    n = place.provider.stats()["batches"]
    command = place.start("--batch")
    until_batches(place, n + 1)
    second = cts_in(place.here, *place.words, "--batch")
    assert second.returncode == 2
    assert "is writing this run" in second.stderr
    assert command.kill() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("--judge", "plain"),
            "--batch: plain has no batches at this provider: there is no [models.plain.tiers.",
        ),
        (
            ("--judge", "local"),
            "--batch: local has no batches at this provider: it is embedded in this program",
        ),
        (
            ("--judge", "some"),
            "--batch: some has no batches at this provider: it makes them of fake-4, and not of",
        ),
        (("--judge", "lexical"), "--batch: no model is asked here"),
        (
            ("--judge", "fake", "--workers", "2"),
            "--batch waits for its provider, and needs no --ray or --workers",
        ),
        (("--judge", "gpt"), "missing in the environment: OPENAI_API_KEY"),
    ],
)
def test_mistakes_are_one_line(
    words: Sequence[str], problem: str, cts: Cts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "cts.toml").write_text(MODELS.format(url="http://127.0.0.1:9/v1"))
    command = write_candidates(tmp_path, 0, tmp_path / "out")
    i = command.index("--judge")
    code, _, printed = cts(*command[:i], *command[i + 2 :], *words)
    assert code == 2
    assert problem in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_killed_runs_lose_nothing_and_pay_nothing_twice(kind: str, start: Start) -> None:
    toll: Toll = killed_runs(start, kind, 2, life_s=1.5, seed=7)
    assert (toll.kills, toll.lost, toll.paid_twice, toll.unended) == (2, 0, 0, 0)
    assert toll.codes <= {0, 1}, toll.output
