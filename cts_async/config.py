"""The configuration of a command: one frozen object, read once from the options, passed on whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cts_async.records import AgentPrompt, EmptyAnswers, Mode, Scheme

Join = Literal["id-and-query", "id"]
"""By id, else by fused query, refusing a line where they contradict each other; or by the id alone if it has one."""

Consent = Literal["ask", "named", "remember"]
"""Whether a cts.toml may decide where keys are sent: ask the user; it was named by --config; remember consent."""


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """Spending limits of a command over all its sessions; None: unlimited.

    `deadline` is a wall-clock time (seconds since 1970) and applies to this session only.
    """

    max_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    deadline: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is any limit."""
        return self != BudgetConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConfig:
    """The options that all commands share which call models: run, gold, converse and judge."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Names of columns that differ from ours: our name to the file's."""
    config_file: Path | None = None
    config_consent: Consent = "ask"
    limit: int | None = None
    """Only the first so many instances (of `cts judge`: answers of each system)."""
    max_outage_s: float = 900.0
    budget: BudgetConfig = BudgetConfig()
    in_flight: int | None = None
    """Instances worked on at once; None: as many as the models' limits keep busy."""
    retry_failed: bool = False
    sync: bool = False
    """Flush every step to the disk before it counts."""
    seed: int = 0
    command: str = "cts"
    """The command line, as the manifest records it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(CommandConfig):
    """A `cts run`. Role names left None take their default from cts.toml, else from the Clarifier."""

    models: tuple[str, ...] = ("local",)
    ks: tuple[int, ...] = (1,)
    schemes: tuple[Scheme, ...] = ("cts",)
    modes: tuple[Mode, ...] = ("at-once",)
    answers: str | None = None
    """Dataset whose human answers replace the User Answerer's ("qulac", "clariq"); None: the support model's."""
    data: str = "sample"
    gold: Path | None = None
    skip_bad_gold: bool = False
    """Leave out instances whose gold line is missing, has no nuggets, or cannot be used."""
    corpus: Path | None = None
    search: str | None = None
    visit: str | None = None
    visit_model: str | None = None
    allow_addresses: tuple[str, ...] = ()
    replay: tuple[Path, ...] = ()
    support: str | None = None
    judges: tuple[str, ...] = ()
    agent: str | None = None
    extractor: str | None = None
    every_role: str | None = None
    references: tuple[str, ...] = ("orig",)
    no_judge: bool = False
    name: str | None = None
    runs_dir: Path = Path("runs")
    max_turns: int | None = None
    date: str | None = None
    """The date in the agent's prompt, YYYY-MM-DD; None: today's, or when a run is resumed, the recorded one."""
    agent_prompt: AgentPrompt | None = None
    """Which prompt the agent gets; None: the one that the catalogue names for the agent's model."""
    empty_answers: EmptyAnswers = "fail"
    """Whether a search that ends without an answer is a failure without a score, or scored 0 without asking a judge."""
    command: str = "cts run"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldConfig(RunConfig):
    """A `cts gold`: a search of each intent, and the limits of its evidence (None: what suits the extractor)."""

    out: Path
    force: bool = False
    """Replace `out` even where it holds lines that this build did not write."""
    max_sources: int | None = None
    source_chars: int | None = None
    total_chars: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverseConfig(RunConfig):
    """A `cts converse`: conversations without search and judges; `ks` are the numbers of turns."""

    questions: int = 5
    """Questions asked in mode "at-once"."""
    topics: int | None = None
    """Only the first so many distinct underspecified queries."""
    intents: int | None = None
    """At most so many instances of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig(CommandConfig):
    """A `cts judge`: of finished runs, or of candidates (`gold`, `candidates`, `out`).

    `candidates` are files, patterns and directories, or one of them.
    """

    judges: tuple[str, ...] = ()
    runs: tuple[Path, ...] = ()
    gold: Path | None = None
    skip_bad_gold: bool = False
    join: Join = "id-and-query"
    """How candidates are joined with the gold."""
    candidates: str | tuple[str, ...] = ()
    out: Path | None = None
    lexical: bool = False
    """Whether the lexical judge is added to the judges of candidates."""
    nuggets_per_call: int | None = None
    empty_answers: EmptyAnswers = "fail"
    """Whether a candidate's empty answer is a failure without a score, or scored 0 without asking the judge."""
    command: str = "cts judge"


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """How conversations are evaluated; does not change the conversations. `qrels` is a file's path or "intent:N".

    `relevance_level` is the lowest grade that binary measures count as relevant, as in `analysis.retrieval.evaluate`.
    """

    corpus: Path | None = None
    qrels: str = "intent:10"
    relevance_level: int = 1
    reranker: str | None = None
    measures: tuple[str, ...] = ("nDCG@10", "MRR@10")
    encoder: str | None = None
