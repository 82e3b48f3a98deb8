"""What a user asks for: one frozen object, read once from options and cts.toml, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cts_async.records import AgentPrompt, EmptyAnswers, Mode, Scheme

Join = Literal["id-and-query", "id"]
"""By id, else by fused query, and an error where they contradict each other; or by the id alone if there is one."""

Consent = Literal["ask", "named", "remember"]
"""Whether a cts.toml may decide where keys go: the one of the folder, one that was named, one to be remembered."""


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """What a command may spend, all its sessions together; None where there is no limit.

    `deadline` is a wall-clock stamp (seconds since 1970) and concerns this command only, not the next one.
    """

    max_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    deadline: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is any limit."""
        return self != BudgetConfig()


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A `cts run`. Role names left None take their default from cts.toml, else from the Clarifier."""

    models: tuple[str, ...] = ("local",)
    ks: tuple[int, ...] = (1,)
    schemes: tuple[Scheme, ...] = ("cts",)
    modes: tuple[Mode, ...] = ("at-once",)
    answers: str | None = None
    """Whose answers stand in for the User Answerer's ("qulac", "clariq"); None: the support model's."""
    data: str = "sample"
    gold: Path | None = None
    skip_bad_gold: bool = False
    """Leave out instances whose gold line has no nuggets, or such as cannot be used."""
    corpus: Path | None = None
    search: str | None = None
    visit: str | None = None
    visit_model: str | None = None
    allow_addresses: tuple[str, ...] = ()
    replay: tuple[Path, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    support: str | None = None
    judges: tuple[str, ...] = ()
    agent: str | None = None
    extractor: str | None = None
    every_role: str | None = None
    references: tuple[str, ...] = ("orig",)
    no_judge: bool = False
    limit: int | None = None
    name: str | None = None
    runs_dir: Path = Path("runs")
    config_file: Path | None = None
    config_consent: Consent = "ask"
    max_turns: int | None = None
    date: str | None = None
    """The date in the agent's prompt, YYYY-MM-DD; None: today's, or the recorded one of a run that is resumed."""
    agent_prompt: AgentPrompt | None = None
    """Which prompt the agent gets; None: what the catalogue says of the agent's model."""
    empty_answers: EmptyAnswers = "fail"
    """Whether a search that ends without an answer is a failure without a score, or scored 0 without asking a judge."""
    max_outage_s: float = 900.0
    budget: BudgetConfig = BudgetConfig()
    in_flight: int | None = None
    retry_failed: bool = False
    sync: bool = False
    seed: int = 0
    command: str = "cts run"


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """A `cts judge`: of finished runs, or of candidates (`gold`, `candidates`, `out`).

    `candidates` are files, patterns and directories, or one of them.
    """

    judges: tuple[str, ...] = ()
    runs: tuple[Path, ...] = ()
    gold: Path | None = None
    skip_bad_gold: bool = False
    join: Join = "id-and-query"
    """What candidates and gold are joined by."""
    candidates: str | tuple[str, ...] = ()
    out: Path | None = None
    lexical: bool = False
    """Whether candidates are judged lexically as well, beside the judges asked for."""
    nuggets_per_call: int | None = None
    empty_answers: EmptyAnswers = "fail"
    """Whether a candidate's empty answer is a failure without a score, or scored 0 without asking the judge."""
    fields: Mapping[str, str] = field(default_factory=dict)
    config_file: Path | None = None
    config_consent: Consent = "ask"
    max_outage_s: float = 900.0
    budget: BudgetConfig = BudgetConfig()
    in_flight: int | None = None
    retry_failed: bool = False
    sync: bool = False
    limit: int | None = None
    seed: int = 0
    command: str = "cts judge"


@dataclass(frozen=True, slots=True)
class GoldConfig:
    """A `cts gold`: of `run` counts what a search needs; limits left None suit the extractor."""

    run: RunConfig
    out: Path
    force: bool = False
    """Replace `out` even where it holds what this build did not write."""
    max_sources: int | None = None
    source_chars: int | None = None
    total_chars: int | None = None


@dataclass(frozen=True, slots=True)
class TalkConfig:
    """A `cts converse`: of `run` counts what a conversation needs; its `ks` are the turns."""

    run: RunConfig
    questions: int = 5
    """Asked at once, in the mode that asks so."""
    topics: int | None = None
    """Only the first so many distinct underspecified queries."""
    intents: int | None = None
    """At most so many instances of each."""


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """How conversations are evaluated, which changes nothing of them. `qrels` is a file's path or "intent:N".

    `relevance_level` is the least grade that binary measures take for relevant, as in `analysis.retrieval.evaluate`.
    """

    corpus: Path | None = None
    qrels: str = "intent:10"
    relevance_level: int = 1
    reranker: str | None = None
    measures: tuple[str, ...] = ("nDCG@10", "MRR@10")
    encoder: str | None = None
