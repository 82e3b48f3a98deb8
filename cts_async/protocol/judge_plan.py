"""The plan of `cts judge`: what is judged, by which judges, into which directories; checked before anything starts.

A finished run keeps its results and gets `judgments/JUDGE.jsonl`. One file of candidates is judged into OUT itself, as
the release's eval_gold.py does; several into a directory each, OUT/NAME/, with one journal for all of them in OUT:

    OUT/run.json  steps.jsonl  prompts/       what determines the verdicts, every call, the prompts as used
    OUT/NAME/per_item.jsonl  summary.json     the first judge's verdicts
    OUT/NAME/judgments/JUDGE.jsonl            every further judge's
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cts_async.config import JudgeConfig
from cts_async.datasets import GoldIndex, candidate_files, check_read_again, read_gold, sha256_of
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.answers import Answers, Repeats, answers_of_candidates, answers_of_run, calls_to_judge
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.prompts import PromptSet, load_prompts
from cts_async.protocol.run_files import JUDGMENTS, PROMPTS, RESULTS, STEPS
from cts_async.protocol.systems import (
    PAPER_SUPPORT,
    check_prices,
    manifest_prices,
    resolve_all,
    with_stand_ins,
)
from cts_async.records import is_one_line

SYSTEMS: Final = "systems"
"""The manifest's field that marks an OUT of several candidate files: their names, in order."""
_PLAIN_NAMES: Final = ("results", "per_item")
"""Files of ours that are called by their directory's name."""
_RESERVED: Final = (JUDGMENTS, PROMPTS)


@dataclass(frozen=True, slots=True)
class Target:
    """One system's answers, and the directory of the verdicts on them.

    `scoring` is the judge whose verdicts are the results themselves; None for a finished run, which has its own.
    """

    name: str
    directory: Path
    answers: Answers
    scoring: str | None = None
    identity: Mapping[str, Any] | None = None
    shared_journal: bool = False

    def job_id(self, id: str) -> str:
        """The answer's id in the journal."""
        return f"{self.name}/{id}" if self.shared_journal else id

    def journal(self, out: Path) -> Path:
        return (out if self.shared_journal else self.directory) / STEPS


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """What is judged, by whom, and into which directories."""

    config: JudgeConfig
    out: Path
    """The only target's directory, or the parent of all targets' directories."""
    specs: Mapping[str, ModelSpec]
    judges: tuple[str, ...]
    targets: tuple[Target, ...]
    repeats: Repeats
    n_calls: Mapping[str, tuple[int, int]]
    """By model judge: calls for every answer on its own, and calls for every distinct question."""
    identity: Mapping[str, Any] | None
    """None for finished runs, which keep their own."""
    prompts: PromptSet
    notes: tuple[str, ...] = ()
    """Remarks on how the gold was read, for the user."""

    @property
    def embedded(self) -> bool:
        return any(spec.embedded for spec in self.specs.values())

    @property
    def n_answers(self) -> int:
        return sum(len(target.answers) for target in self.targets)

    @property
    def n_saved(self) -> int:
        """Calls saved because several answers ask the same question."""
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
        """The journals that record the calls."""
        return list(dict.fromkeys(target.journal(self.out) for target in self.targets))

    def directories(self) -> Sequence[Path]:
        """The targets' directories."""
        return [target.directory for target in self.targets]

    def manifest_notes(self) -> dict[str, Any]:
        """What the manifest records beside the identity."""
        return {
            "command": self.config.command,
            "n_expected": self.n_answers,
            "embedded": self.embedded,
            "prices": manifest_prices(self.specs.values()),
        }

    def group(self, judge: str) -> str:
        """The name of a judge's job group: several judges have a group each, so that one outage stops one judge only."""
        one = len(self.targets) == 1 or self.identity is not None
        name = self.out.name if one else f"{len(self.targets)} runs"
        return name if len(self.judges) == 1 else f"{name}, {judge}"


def width_of(judge: str, judges: Collection[str], usual: int) -> int:
    """Answers that one of `judges` works on at once; beside others the lexical one needs only one worker."""
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

    `keyless` and `keys_elsewhere` as in `plan.make_plan`.
    """
    _check_options(config)
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


def _check_options(config: JudgeConfig) -> None:
    """Require either runs, or candidates with their gold and output directory."""
    of_candidates = {"--gold G": config.gold, "--candidates C": config.candidates, "--out DIR": config.out}
    given = [option for option, value in of_candidates.items() if value]
    if config.runs:
        given += ["--skip-bad-gold"] * config.skip_bad_gold + ["--join"] * (config.join == "id")
        given += ["--empty-answers"] * (config.empty_answers != "fail")
    if config.runs and given:
        raise UsageError(
            f"{', '.join(given)} cannot be combined with RUN arguments: a run has its own gold and directory"
        )
    if not config.runs and len(given) < len(of_candidates):
        raise UsageError(
            "nothing to judge: name runs (cts judge runs/NAME), or use --gold G --candidates C --out DIR"
        )


def _distinct(runs: Sequence[Path]) -> list[Path]:
    distinct: dict[Path, Path] = {}
    for run in runs:
        distinct.setdefault(run.resolve(), run)
    return list(distinct.values())


def _target_of_run(run: Path, judges: Sequence[str], limit: int | None) -> Target:
    """Refuses the judge that scored the run: its labels are in the results already."""
    scoring = ((read_manifest(run) or {}).get("identity", {}).get("judges") or [None])[0]
    if scoring in judges:
        raise UsageError(
            f"{run}: {scoring} has scored this run; its labels are in {RESULTS}. Use another --judge"
        )
    return Target(run.name, run, answers_of_run(run, limit))


def _targets_of_candidates(
    config: JudgeConfig, scoring: str, specs: Mapping[str, ModelSpec], prompts: PromptSet
) -> tuple[list[Target], dict[str, Any], tuple[str, ...]]:
    """A target for each file, what determines all verdicts, and remarks on how the gold was read."""
    assert config.gold
    assert config.out
    given = [config.candidates] if isinstance(config.candidates, str) else list(config.candidates)
    files = candidate_files(given)
    for file in (config.gold, *files):
        check_read_again(file)
    for name in names_of(files):
        if not is_one_line(name):
            raise UsageError(f"--candidates: {name!r} has control characters or line breaks; rename the file")
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
    """The judge's nuggets per call, if any answer needs more than one call."""
    most = max((len(record.nuggets) for record in gold.records()), default=0)
    if judge not in specs or most <= specs[judge].judge_nuggets:
        return {}
    return {"nuggets_per_call": specs[judge].judge_nuggets}


def _judge_prompts(prompts: PromptSet) -> list[str]:
    return [name for name in prompts.sha256 if name.startswith("judge.")]


# --- Names of several candidate files


def names_of(files: Sequence[Path]) -> list[str]:
    """A distinct short name for each file: its stem, preceded by as many of its folders as that takes."""
    parts = [_parts(file) for file in files]
    taken = [1] * len(files)
    while True:
        names = ["-".join(own[-n:]) for own, n in zip(parts, taken, strict=True)]
        counts = Counter(name.casefold() for name in names)
        clashes = [i for i, name in enumerate(names) if counts[name.casefold()] > 1 or name in _RESERVED]
        longer = [i for i in clashes if taken[i] < len(parts[i])]
        if not longer:
            return _numbered(names)
        for i in longer:
            taken[i] += 1


def _parts(file: Path) -> list[str]:
    whole = [part for part in file.absolute().parts if part not in ("/", ".", "..")]
    return whole[:-1] if file.stem in _PLAIN_NAMES and len(whole) > 1 else [*whole[:-1], file.stem]


def _numbered(names: Sequence[str]) -> list[str]:
    """The names, with `-2`, `-3`, ... appended to those that are taken."""
    found: list[str] = []
    taken = set(_RESERVED)
    for name in names:
        own, n = name, 2
        while own.casefold() in taken:
            own, n = f"{name}-{n}", n + 1
        taken.add(own.casefold())
        found.append(own)
    return found


def several(out: Path, n_files: int) -> bool:
    """Whether OUT has a directory for each file: as it was begun, else if there are several files.

    UsageError for several files into an OUT that holds the verdicts on one.
    """
    manifest = read_manifest(out)
    if manifest is None:
        return n_files > 1
    if SYSTEMS in manifest:
        return True
    if n_files > 1:
        of = manifest.get("identity", {}).get("candidates", "one file")
        raise UsageError(f"{out} holds the verdicts on {of} alone: use another --out for several files")
    return False
