"""From what a user wants judged to what will be done: everything checked before anything starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cts_async.config import JudgeConfig
from cts_async.datasets import GoldIndex, candidate_files, check_read_again, read_gold, sha256_of
from cts_async.engine.journal import Journal
from cts_async.engine.processes import allow_more_files
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import UsageError, write_error
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.answers import Answers, Repeats, answers_of_candidates, answers_of_run, calls_to_judge
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.prompts import PromptSet, load_prompts
from cts_async.protocol.run_files import (
    FURTHER,
    JUDGMENTS,
    PER_ITEM,
    PROMPTS,
    RESULTS,
    STEPS,
    Also,
    RunFiles,
    further_files,
    noted,
    opened_files,
    with_judges,
)
from cts_async.protocol.systems import PAPER_SUPPORT, check_prices, resolve_all, with_stand_ins
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


# --- Where verdicts on answers that exist already go, and the files there, held open by the one process that writes.
#
# A finished run keeps its results and gets `judgments/JUDGE.jsonl`. One file of candidates is judged into OUT itself,
# in the release's form; several into a directory each, OUT/NAME/, with one journal for all of them in OUT:
#
#     OUT/run.json  steps.jsonl  prompts/       what determines the verdicts, every call, the prompts as used
#     OUT/NAME/per_item.jsonl  summary.json     the first judge's verdicts
#     OUT/NAME/judgments/JUDGE.jsonl            every further judge's


SYSTEMS: Final = "systems"
"""The field of a manifest by which an OUT of several candidate files is known: their names, in order."""
PLACE: Final = "--out"
_PLAIN_NAMES: Final = ("results", "per_item")
"""Files of ours that are known by their directory's name."""
_TAKEN: Final = (JUDGMENTS, PROMPTS)
_FILES_EACH: Final = 4


@dataclass(frozen=True, slots=True)
class Target:
    """One system's answers, and the directory of the verdicts on them.

    `scoring` is the judge whose verdicts are the results themselves; None in a finished run, which has its own.
    """

    name: str
    directory: Path
    answers: Answers
    scoring: str | None = None
    identity: Mapping[str, Any] | None = None
    shared_journal: bool = False

    def job_id(self, id: str) -> str:
        """What an answer is called in the journal."""
        return f"{self.name}/{id}" if self.shared_journal else id

    def journal(self, out: Path) -> Path:
        return (out if self.shared_journal else self.directory) / STEPS


def names_of(files: Sequence[Path]) -> list[str]:
    """A short name for each file, all different: its own, with as much of its path in front as that takes."""
    parts = [_parts(file) for file in files]
    taken = [1] * len(files)
    while True:
        names = ["-".join(own[-n:]) for own, n in zip(parts, taken, strict=True)]
        counts = Counter(name.casefold() for name in names)
        clashes = [i for i, name in enumerate(names) if counts[name.casefold()] > 1 or name in _TAKEN]
        longer = [i for i in clashes if taken[i] < len(parts[i])]
        if not longer:
            return _numbered(names)
        for i in longer:
            taken[i] += 1


def _parts(file: Path) -> list[str]:
    whole = [part for part in file.absolute().parts if part not in ("/", ".", "..")]
    return whole[:-1] if file.stem in _PLAIN_NAMES and len(whole) > 1 else [*whole[:-1], file.stem]


def _numbered(names: Sequence[str]) -> list[str]:
    """The names with `-2`, `-3`, ... behind those that are taken."""
    found: list[str] = []
    taken = set(_TAKEN)
    for name in names:
        own, n = name, 2
        while own.casefold() in taken:
            own, n = f"{name}-{n}", n + 1
        taken.add(own.casefold())
        found.append(own)
    return found


def several(out: Path, n_files: int) -> bool:
    """Whether OUT has a directory for each file: as it was begun, else where there are several.

    UsageError for several files into an OUT that holds the verdicts on one.
    """
    manifest = read_manifest(out)
    if manifest is None:
        return n_files > 1
    if SYSTEMS in manifest:
        return True
    if n_files > 1:
        of = manifest.get("identity", {}).get("candidates", "one file")
        raise UsageError(f"{out} holds the verdicts on {of} alone: choose another --out for several files")
    return False


@contextmanager
def opened_targets(
    targets: Sequence[Target],
    out: Path,
    identity: Mapping[str, Any] | None,
    notes: Mapping[str, Any],
    *,
    judges: Mapping[str, Mapping[str, Any]],
    prompts: Mapping[str, str],
    sync: bool,
    also: Also = dict,
) -> Iterator[list[RunFiles]]:
    """The files of every target, in order. Of finished runs (no `identity`) each finds the others' verdicts.

    `judges` are those who will be asked, see `further_judges.with_judges`. Raises UsageError, StorageFull.
    """
    allow_more_files(len(targets) * _FILES_EACH)
    with ExitStack() as stack:
        if identity is None:
            runs = [stack.enter_context(_further(one, judges, notes, sync)) for one in targets]
            for files in runs:
                files.journal.beside = [other.journal for other in runs if other is not files]
            yield runs
            return
        journal = None
        if targets[0].shared_journal:
            earlier = (read_manifest(out) or {}).get(SYSTEMS, [])
            systems = {SYSTEMS: list(dict.fromkeys([*earlier, *(one.name for one in targets)]))}
            stack.enter_context(
                noted(out, identity, {**notes, **systems}, prompts=prompts, place=PLACE, also=also)
            )
            try:
                journal = Journal(out / STEPS, sync=sync)
            except OSError as error:
                raise write_error(out, error, verb="write there") from None
            stack.callback(journal.close)
            prompts = {}
        yield [stack.enter_context(_own(one, judges, notes, journal, prompts, sync, also)) for one in targets]


def _further(
    target: Target, judges: Mapping[str, Mapping[str, Any]], notes: Mapping[str, Any], sync: bool
) -> Any:
    return further_files(target.directory, judges, notes["prices"], embedded=notes["embedded"], sync=sync)


def _own(
    target: Target,
    judges: Mapping[str, Mapping[str, Any]],
    notes: Mapping[str, Any],
    journal: Journal | None,
    prompts: Mapping[str, str],
    sync: bool,
    also: Also,
) -> Any:
    own = {**notes, "n_expected": len(target.answers)}
    further = {name: how for name, how in judges.items() if name != target.scoring}
    if noted_judges := with_judges(target.directory, read_manifest(target.directory) or {}, further):
        own[FURTHER] = noted_judges
    if journal is not None:
        own["journal"] = f"../{STEPS}"
    return opened_files(
        target.directory,
        target.identity or {},
        own,
        prompts=prompts,
        results=PER_ITEM,
        sync=sync,
        journal=journal,
        place=PLACE,
        also=also,
    )
