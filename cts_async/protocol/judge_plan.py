"""From what a user wants judged to what will be done: everything checked before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cts_async.config import JudgeConfig
from cts_async.datasets import GoldIndex, candidate_files, check_read_again, read_gold, sha256_of
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.judge_files import Target, names_of, several
from cts_async.protocol.judging import Repeats, answers_of_candidates, answers_of_run, calls_to_judge
from cts_async.protocol.prompts import PromptSet, load_prompts
from cts_async.protocol.roles import PAPER_SUPPORT, resolve_all, with_stand_ins
from cts_async.protocol.run_files import RESULTS
from cts_async.protocol.spending import check_prices
from cts_async.records import is_one_line


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """What will be judged, by whom, and into which directories; everything checked."""

    config: JudgeConfig
    out: Path
    """Where all of it goes: the only target's directory, or that of them all."""
    specs: Mapping[str, ModelSpec]
    judges: tuple[str, ...]
    targets: tuple[Target, ...]
    repeats: Repeats
    n_calls: Mapping[str, tuple[int, int]]
    """Of each model judge: calls for all answers one by one, and for each question once."""
    identity: Mapping[str, Any] | None
    """None for finished runs, which keep their own."""
    prompts: PromptSet
    notes: tuple[str, ...] = ()
    """What a person should know of how the gold was read."""

    @property
    def embedded(self) -> bool:
        return any(spec.embedded for spec in self.specs.values())

    @property
    def n_answers(self) -> int:
        return sum(len(target.answers) for target in self.targets)

    @property
    def n_saved(self) -> int:
        """Calls that nobody has to make because their question is another answer's, too."""
        return sum(every - once for every, once in self.n_calls.values())

    @property
    def prompt_names(self) -> list[str]:
        return _judge_prompts(self.prompts)

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """What determines each model judge's verdicts, by its name."""
        prompts = {name: self.prompts.sha256[name] for name in self.prompt_names}
        return {name: {"model": spec.identity, "prompts": prompts} for name, spec in self.specs.items()}

    @property
    def journals(self) -> list[Path]:
        """Where calls are recorded."""
        return list(dict.fromkeys(target.journal(self.out) for target in self.targets))

    def group(self, judge: str) -> str:
        """The name of a judge's jobs: where there are several judges, one that is gone holds up its own only."""
        one = len(self.targets) == 1 or self.identity is not None
        name = self.out.name if one else f"{len(self.targets)} runs"
        return name if len(self.judges) == 1 else f"{name}, {judge}"

    def in_flight(self, judge: str, usual: int) -> int:
        """How many answers a judge works on at once."""
        return width_of(judge, self.judges, usual)


def width_of(judge: str, judges: Collection[str], usual: int) -> int:
    """How many answers one of `judges` works on at once: beside others the lexical one only fills the pauses."""
    return 1 if judge == LEXICAL and len(judges) > 1 else usual


def plan_judging(
    config: JudgeConfig,
    catalogue: Catalogue,
    environ: Mapping[str, str],
    *,
    keyless: bool = False,
    keys_elsewhere: bool = False,
) -> JudgePlan:
    """Check everything. Raises UsageError; starts and writes nothing.

    `keyless` and `keys_elsewhere` are as in `plan.make_plan`.
    """
    _check_asked(config)
    judges = config.judges or (catalogue.roles.get("judge") or PAPER_SUPPORT,)
    if keyless or keys_elsewhere:
        environ = with_stand_ins(judges, catalogue, environ, keys_only=not keyless)
    specs = {
        name: replace(spec, judge_nuggets=config.nuggets_per_call or spec.judge_nuggets)
        for name, spec in resolve_all(
            {name: ["judge"] for name in judges},
            catalogue,
            environ,
            options="--judge NAME",
            keyless="--judge lexical",
        ).items()
    }
    if config.budget.max_usd is not None:
        check_prices(specs.values())
    prompts = load_prompts()
    notes: tuple[str, ...] = ()
    if config.runs:
        out, identity = config.runs[0], None
        targets = [_target_of_run(run, judges, config.limit) for run in _distinct(config.runs)]
    else:
        assert config.out
        out = config.out
        targets, identity, notes = _targets_of_candidates(config, judges[0], specs, prompts)
        if config.lexical and LEXICAL not in judges:
            judges = (*judges, LEXICAL)
    systems = [target.answers for target in targets]
    repeats = Repeats(systems)
    return JudgePlan(
        config=config,
        out=out,
        specs=specs,
        judges=judges,
        targets=tuple(replace(target, answers=target.answers.counted()) for target in targets),
        repeats=repeats,
        n_calls={name: calls_to_judge(systems, repeats, spec.judge_nuggets) for name, spec in specs.items()},
        identity=identity,
        prompts=prompts,
        notes=notes,
    )


def _check_asked(config: JudgeConfig) -> None:
    """Either runs or candidates, and what the latter need."""
    of_candidates = {"--gold G": config.gold, "--candidates C": config.candidates, "--out DIR": config.out}
    given = [option for option, value in of_candidates.items() if value]
    if config.runs:
        given += ["--skip-bad-gold"] * config.skip_bad_gold + ["--join"] * (config.join == "id")
        given += ["--empty-answers"] * (config.empty_answers != "fail")
    if config.runs and given:
        raise UsageError(
            f"runs have gold and a place of their own: leave out {', '.join(given)}, or the runs"
        )
    if not config.runs and len(given) < len(of_candidates):
        raise UsageError(
            "name runs (cts judge runs/NAME), or --gold G --candidates C --out DIR for anybody's answers"
        )


def _distinct(runs: Sequence[Path]) -> list[Path]:
    distinct: dict[Path, Path] = {}
    for run in runs:
        distinct.setdefault(run.resolve(), run)
    return list(distinct.values())


def _target_of_run(run: Path, judges: Sequence[str], limit: int | None) -> Target:
    """A run's first judge has labelled every answer already; a second file of the same would only confuse."""
    scoring = ((read_manifest(run) or {}).get("identity", {}).get("judges") or [None])[0]
    if scoring in judges:
        raise UsageError(
            f"{run}: {scoring} is the judge that scored it; its labels are in {RESULTS}; name another with --judge"
        )
    return Target(run.name, run, answers_of_run(run, limit))


def _targets_of_candidates(
    config: JudgeConfig, scoring: str, specs: Mapping[str, ModelSpec], prompts: PromptSet
) -> tuple[list[Target], dict[str, Any], tuple[str, ...]]:
    """A target for each file, what determines the verdicts of all, and what to know of the gold."""
    assert config.gold
    assert config.out
    given = [config.candidates] if isinstance(config.candidates, str) else list(config.candidates)
    files = candidate_files(given)
    for file in (config.gold, *files):
        check_read_again(file)
    for name in names_of(files):
        if not is_one_line(name):
            raise UsageError(
                f"--candidates: {name!r} has control characters or line breaks; rename that file"
            )
    apart = several(config.out, len(files))
    begun = config.out.exists()
    gold = read_gold(config.gold, config.fields, skip_bad=config.skip_bad_gold)
    by_id = config.join == "id"
    common = {
        "gold_sha256": sha256_of(config.gold),
        "judges": [scoring],
        **({"models": {scoring: specs[scoring].identity}} if scoring in specs else {}),
        "prompts": {name: prompts.sha256[name] for name in _judge_prompts(prompts)},
        **_split(scoring, specs, gold),
        **({"join": config.join} if by_id else {}),
        **({} if config.empty_answers == "fail" else {"empty_answers": config.empty_answers}),
    }
    targets = [
        Target(
            name,
            config.out / name if apart else config.out,
            answers_of_candidates(
                file,
                gold,
                config.fields,
                config.limit,
                marked=begun,
                by_id=by_id,
                empty_is_zero=config.empty_answers == "zero",
            ),
            scoring,
            {"system": name, "candidates": str(file), **common},
            apart,
        )
        for name, file in zip(names_of(files), files, strict=True)
    ]
    return targets, common, gold.notes


def _split(judge: str, specs: Mapping[str, ModelSpec], gold: GoldIndex) -> dict[str, int]:
    """How many nuggets the judge is asked about at once, if that ever makes a difference."""
    most = max((len(record.nuggets) for record in gold.records()), default=0)
    if judge not in specs or most <= specs[judge].judge_nuggets:
        return {}
    return {"nuggets_per_call": specs[judge].judge_nuggets}


def _judge_prompts(prompts: PromptSet) -> list[str]:
    return [name for name in prompts.sha256 if name.startswith("judge.")]
