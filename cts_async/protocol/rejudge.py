"""`cts judge`: judges answers that exist already, of finished runs or of candidate files, by several judges at once.

The answers are never changed. A finished run keeps its results and gets `judgments/JUDGE.jsonl`. One file of candidates
is judged into OUT itself, as the release's eval_gold.py does; several into a directory each, OUT/NAME/, with one journal
for all of them in OUT:

    OUT/run.json  steps.jsonl  prompts/       what determines the verdicts, every call, the prompts as used
    OUT/NAME/per_item.jsonl  summary.json     the first judge's verdicts
    OUT/NAME/judgments/JUDGE.jsonl            every further judge's

Each judge has its own stream of jobs, so that a slow or unreachable one holds up no other, and each distinct question is
asked once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from cts_async.config import JudgeConfig
from cts_async.datasets import (
    GoldIndex,
    candidate_files,
    check_read_again,
    read_gold,
    restriction_in,
    sha256_of,
)
from cts_async.datasets.io import NumberedLine
from cts_async.engine.events import Events, JobsFound, Notice
from cts_async.engine.journal import Journal
from cts_async.engine.processes import allow_more_files
from cts_async.engine.reuse import StepSource
from cts_async.engine.runner import Context, Job
from cts_async.errors import StepError, UsageError, write_error
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.answers import (
    Answers,
    CandidateLines,
    Judging,
    KeptAnswers,
    Repeats,
    Wanted,
    answers_of_candidates,
    answers_of_run,
    any_id,
)
from cts_async.protocol.batching import batch_widths, check_batches, remarks_on_batches
from cts_async.protocol.custom.sources import label_judges, source_texts
from cts_async.protocol.forecast import (
    SAMPLE,
    Effort,
    LaneForecast,
    ReusedEffort,
    StepsForecast,
    WayForecast,
    in_batches,
    judge_tokens,
    lanes_of,
    reused_effort,
    step_of,
    total_of,
    ways_to_ask,
)
from cts_async.protocol.found_steps import FoundVerdicts
from cts_async.protocol.judge import LEXICAL, Judge, check_form, nothing_covered
from cts_async.protocol.plan import FIXED_TEMPERATURE, CommandPlan, enough_in_flight
from cts_async.protocol.prompts import JUDGE_PROMPTS, PromptSet, choose_prompts, remarks_on
from cts_async.protocol.run import Jobs, Resources, execute, instances_in_flight
from cts_async.protocol.run_files import (
    EndedLines,
    RecordedWork,
    RunFiles,
    RunRecord,
    SessionNotes,
    open_finished_run,
    open_run_files,
    recorded_session,
    with_judges,
)
from cts_async.protocol.systems import (
    PAPER_SUPPORT,
    check_prices,
    manifest_prices,
    remarks_on_tiers,
    resolve_all,
    tier_notes,
)
from cts_async.protocol.versions import ChosenVersion, Reuse, Series, choose_version
from cts_async.protocol.views import JudgeView
from cts_async.records import JUDGE_FORMS, JudgeForm, Judgment, is_one_line, value
from cts_async.runs.files import (
    JUDGMENTS,
    PER_ITEM,
    PROMPTS,
    RESULTS,
    SOURCES,
    STEPS,
    judgments_path,
)
from cts_async.runs.identity import resumed_identity
from cts_async.runs.manifest import Manifest, manifest_or_empty, read_manifest
from cts_async.runs.results import LatestLines, Line, failure_line, judged, judged_fingerprint
from cts_async.runs.reuse import Origins
from cts_async.runs.versions import versions_of_series
from cts_async.runs.written import WrittenFiles

T = TypeVar("T")

_PLAIN_NAMES: Final = ("results", "per_item")
"""Files of ours that are called by their directory's name."""
_RESERVED: Final = (JUDGMENTS, PROMPTS, SOURCES)
RUNS: Final = Path("runs")
"""The folder of runs of commands that were given no other."""
_FILES_EACH: Final = 4
"""Files that one target keeps open."""


# --- The plan: checked before anything starts


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

    @property
    def n_expected(self) -> int:
        """Instances that should have an answer: also those of the gold that have none."""
        return len(self.answers) + self.answers.n_absent

    def job_id(self, id: str) -> str:
        """The answer's id in the journal."""
        return f"{self.name}/{id}" if self.shared_journal else id

    def journal(self, out: Path) -> Path:
        return (out if self.shared_journal else self.directory) / STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePlan(CommandPlan):
    """What is judged, by whom, and into which directories."""

    config: JudgeConfig
    out: Path
    """The only target's directory, or the parent of all targets' directories."""
    targets: tuple[Target, ...]
    repeats: Repeats
    identity: Mapping[str, Any] | None
    """None for finished runs, which keep their own."""
    version: ChosenVersion
    """Which version of the folder of judgments `out` is; of finished runs nothing is made anew."""
    written: WrittenFiles = field(default_factory=WrittenFiles)
    """Where the command's own lines are summed for its summary."""
    restriction: str = ""
    """Why texts of the candidates or of their gold must not be published; "" if they may."""
    only_judges: ClassVar[bool] = True

    @property
    def judges_several_answers(self) -> bool:
        return len(self.targets) > 1

    @property
    def n_answers(self) -> int:
        return sum(len(target.answers) for target in self.targets)

    @property
    def judge_prompts(self) -> dict[str, str]:
        """The texts of all judges' prompts by name."""
        texts = {}
        for judge in list(self.specs) or [LEXICAL]:
            for prompt in self.prompts.of(judge).of_role(JUDGE_PROMPTS[self.judge_form]):
                texts[prompt.name] = prompt.text
        return texts

    @property
    def judge_sources(self) -> dict[str, str]:
        """The sources of the judges that code of the user's plays, by file name."""
        texts: dict[str, str] = {}
        for roles in self.custom.values():
            texts |= source_texts(roles["judge"])
        return texts

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """What determines each model judge's verdicts, by its name."""
        settings: dict[str, dict[str, Any]] = {}
        for name, spec in self.specs.items():
            settings[name] = {
                "model": spec.identity,
                "prompts": _prompt_digests(self.prompts, name, self.judge_form),
            }
        for name, roles in self.custom.items():
            settings[name] = {"model": roles["judge"].identity}
        return settings

    @property
    def journals(self) -> Sequence[Path]:
        """The journals that record the calls: several files of candidates share one."""
        return list(dict.fromkeys(target.journal(self.out) for target in self.targets))

    def directories(self) -> Sequence[Path]:
        """The targets' directories."""
        return [target.directory for target in self.targets]

    def manifest_notes(self) -> dict[str, Any]:
        """What the manifest records in addition to the identity."""
        notes = dict(self.config.manifest_fields)
        notes["n_expected"] = sum(target.n_expected for target in self.targets)
        notes["embedded"] = self.embedded
        notes["prices"] = manifest_prices(self.specs.values())
        notes |= tier_notes(self.specs)
        if self.identity is not None:
            notes |= self.version.manifest_notes
            notes[FIXED_TEMPERATURE] = 0.0
        if self.config.share_sampled:
            notes["shares_sampled"] = True
        if self.restriction:
            notes["data"] = {"restriction": self.restriction}
        return notes

    def source_of(self, target: Target, origins: Origins | None) -> StepSource | None:
        """Where the steps of other runs are looked up for a target; None where no run has any."""
        if origins is None or not self.version.reuses:
            return None
        # A finished run is named by its directory here, and its other versions by theirs.
        system = manifest_or_empty(target.directory).identity.system or target.name
        return self.reuse.source(origins, system, sends_defaults=self.fixed_temperature)

    def group(self, judge: str) -> str:
        """The name of a judge's job group: several judges have a group each, so that one outage stops one judge only."""
        name = self.out.name
        # Candidates have a parent directory in common, finished runs need not.
        if self.identity is None and len(self.targets) > 1:
            name = f"{len(self.targets)} runs"
        if len(self.judges) > 1:
            name = f"{name}, {judge}"
        return name


def width_of(judge: str, judges: Collection[str], usual: int) -> int:
    """Answers that one of `judges` works on at once; among others the lexical one needs only one worker."""
    # It waits for nobody, so more of its workers would be no faster.
    if judge == LEXICAL and len(judges) > 1:
        return 1
    return usual


def plan_judging(
    config: JudgeConfig,
    catalogue: Catalogue,
    environ: Mapping[str, str],
    *,
    keyless: bool = False,
    keys_elsewhere: bool = False,
) -> JudgePlan:
    """Check everything. Raises UsageError; starts and writes nothing.

    `keyless` and `keys_elsewhere` as in `resolve_all`.
    """
    _check_options(config)
    prompts, catalogue = choose_prompts(config, catalogue)
    catalogue = replace(catalogue, cheap=config.cheap)
    judge_form = _judge_form(config)
    _check_prompts(prompts, judge_form)
    usual_judge = catalogue.roles.get("judge") or PAPER_SUPPORT
    judges, custom = label_judges(config.judges or (usual_judge,), catalogue)
    specs = resolve_all(
        {name: ["judge"] for name in judges if name not in custom},
        catalogue,
        environ,
        options="--judge NAME",
        trial="--judge lexical",
        keyless=keyless,
        keys_elsewhere=keys_elsewhere,
    )
    if config.nuggets_per_call:
        specs = {name: replace(spec, judge_nuggets=config.nuggets_per_call) for name, spec in specs.items()}
    if config.budget.max_usd is not None:
        check_prices(specs.values())
    check_batches(config, [name for name in judges if name != LEXICAL], specs)
    notes: tuple[str, ...] = ()
    restriction = ""
    if config.runs:
        out, identity = config.runs[0], None
        # Two spellings of one directory would be locked twice.
        distinct = {run.resolve(): run for run in config.runs}
        check_form(judge_form, judges, custom, ())
        targets = [_target_of_run(run, judges, config.limit) for run in distinct.values()]
        folders = list(dict.fromkeys(run.absolute().parent for run in distinct.values()))
        others = tuple(folders[1:]) + config.reuse
        reuse = Reuse(folders[0], other_folders=others, shares_sampled=config.share_sampled)
        version = ChosenVersion(out, is_new=False, reuses=not (config.new or config.no_reuse))
    else:
        assert config.out
        reuse = _reuse_of_candidates(config.out, config)
        targets, identity, version, notes = _targets_of_candidates(
            config, judges, specs, prompts, judge_form, custom
        )
        out = version.directory
        restriction = _restriction_of(config)
        if config.lexical and LEXICAL not in judges:
            judges += (LEXICAL,)
    remarks = list(notes)
    remarks += remarks_on(prompts)
    remarks += _remarks_on_published(config, specs)
    remarks += remarks_on_tiers(specs, cheap=config.cheap)
    begun_from = [version.begun_from] if version.begun_from else []
    remarks += remarks_on_batches(config, specs, (target.journal(out) for target in targets), begun_from)
    reuse.check()
    repeats = Repeats([target.answers for target in targets])
    # Only `Repeats` needs the hashes: of a million answers they take 8 MB.
    lean_targets = [replace(target, answers=target.answers.without_question_hashes()) for target in targets]
    return JudgePlan(
        config=config,
        out=out,
        specs=specs,
        judges=judges,
        judge_form=judge_form,
        targets=tuple(lean_targets),
        repeats=repeats,
        identity=identity,
        prompts=prompts,
        custom=custom,
        catalogue=catalogue if custom else None,
        remarks=tuple(remarks),
        reuse=reuse,
        version=version,
        restriction=restriction,
    )


def _restriction_of(config: JudgeConfig) -> str:
    """Why the candidates or their gold must not be published, as the first of their files says; "" if they may."""
    assert config.gold
    for file in chain(candidate_files(config.candidates), [config.gold]):
        # The answers of a run are in its directory, whose manifest says it.
        restriction = manifest_or_empty(file.parent).data.restriction or restriction_in(file)
        if restriction:
            return restriction
    return ""


def _reuse_of_candidates(out: Path, config: JudgeConfig) -> Reuse:
    """Where verdicts on candidates are looked up: in other versions of the folder, and in the usual folder of runs."""
    others = list(config.reuse)
    if RUNS.is_dir():
        others.insert(0, RUNS)
    versions = [version.directory for version in versions_of_series(out)]
    return Reuse(
        out.absolute().parent,
        parts=tuple(versions) or (out,),
        other_folders=tuple(others),
        shares_sampled=config.share_sampled,
    )


def _remarks_on_published(config: JudgeConfig, specs: Mapping[str, ModelSpec]) -> Iterator[str]:
    """Say where a further judge is asked otherwise than the judges of a run as published."""
    if config.nuggets_per_call or not specs:
        return
    for run in config.runs:
        if manifest_or_empty(run).identity.as_published:
            yield (
                f"{run.name} was made as published, with all nuggets in one call of its judge; here a call has at most "
                "those of the judge's judge_nuggets (20): --nuggets-per-call 999 for all in one"
            )


def _check_options(config: JudgeConfig) -> None:
    """Require either runs, or candidates with their gold and output directory."""
    if not config.runs:
        needed = {"--gold": config.gold, "--candidates": config.candidates, "--out": config.out}
        missing = [option for option, argument in needed.items() if not argument]
        if len(missing) == len(needed):
            raise UsageError(
                "nothing to judge: name runs (cts judge runs/NAME), or use --gold G --candidates C --out DIR"
            )
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise UsageError(
                f"{' and '.join(missing)} {verb} missing: answers of any system are judged with --gold G --candidates C "
                "--out DIR"
            )
        return
    options = {
        "--gold G": config.gold,
        "--candidates C": config.candidates,
        "--out DIR": config.out,
        "--skip-bad-gold": config.skip_bad_gold,
        "--join": config.join == "id",
        "--empty-answers": config.empty_answers != "fail",
    }
    used = [option for option, value in options.items() if value]
    if used:
        raise UsageError(
            f"{', '.join(used)} cannot be combined with RUN arguments: a run has its own gold and directory"
        )


def _target_of_run(run: Path, judges: Sequence[str], limit: int | None) -> Target:
    """Refuses the judge that scored the run: its labels are in the results already."""
    scoring = manifest_or_empty(run).judge
    if scoring in judges:
        raise UsageError(
            f"{run}: {scoring} has scored this run; its labels are in {RESULTS}. Use another --judge, or the run's "
            f"command with --retry-failed for the answers that {scoring} failed to label"
        )
    return Target(run.name, run, answers_of_run(run, limit))


def _targets_of_candidates(
    config: JudgeConfig,
    judges: Sequence[str],
    specs: Mapping[str, ModelSpec],
    prompts: PromptSet,
    form: JudgeForm,
    custom: Collection[str],
) -> tuple[list[Target], dict[str, Any], ChosenVersion, tuple[str, ...]]:
    """A target for each file, what determines all verdicts, which version they are, and remarks on the gold."""
    assert config.gold
    assert config.out
    scoring = judges[0]
    words = [config.candidates] if isinstance(config.candidates, str) else list(config.candidates)
    files = candidate_files(words)
    for file in chain([config.gold], files):
        check_read_again(file)
    names = short_names(files)
    for name in names:
        if not is_one_line(name):
            raise UsageError(f"--candidates: {name!r} has control characters or line breaks; rename the file")
    gold = read_gold(config.gold, config.fields, skip_bad=config.skip_bad_gold)
    check_form(form, judges, custom, (len(record.nuggets) for record in gold.records()))
    # Fields are written only where they differ from the default, so that older directories resume; order is kept.
    common: dict[str, Any] = {"gold_sha256": sha256_of(config.gold), "judges": [scoring]}
    if scoring in specs:
        common["models"] = {scoring: specs[scoring].identity}
    common["prompts"] = _prompt_digests(prompts, scoring, form)
    if form != "nuggets":
        common["judge_form"] = form
    if scoring in specs and _most_nuggets(gold) > specs[scoring].judge_nuggets:
        common["nuggets_per_call"] = specs[scoring].judge_nuggets
    if config.join == "id":
        common["join"] = config.join
    if config.empty_answers != "fail":
        common["empty_answers"] = config.empty_answers
    identities: dict[str, dict[str, Any]] = {}
    for name, file in zip(names, files, strict=True):
        identities[name] = {"system": name, "candidates": str(file)} | common
    version, apart = _choose_folder(config, common, identities)
    out, begun = version.directory, version.directory.exists()
    targets, kept = [], KeptAnswers()
    for name, file in zip(names, files, strict=True):
        target = Target(
            name,
            out / name if apart else out,
            answers_of_candidates(file, gold, config, kept, with_fingerprints=begun),
            scoring=scoring,
            identity=identities[name],
            shared_journal=apart,
        )
        targets.append(target)
    return targets, common, version, gold.notes


def _choose_folder(
    config: JudgeConfig, common: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]]
) -> tuple[ChosenVersion, bool]:
    """The version of OUT that has these settings, or a new one; and whether it has a directory for each file.

    `common` determines all verdicts, `identities` those on each file, by its name.
    """
    assert config.out
    series = Series(config.out)

    def files_agree(manifest: Manifest) -> bool:
        """Whether the files that were judged there before are the ones that have their names now."""
        if not manifest.is_of_several_systems:
            return False
        for name, identity in identities.items():
            target = read_manifest(manifest.directory / name)
            if target is not None and resumed_identity(target, identity) is None:
                return False
        return True

    of_several = choose_version(series, common, config, agrees=files_agree)
    if len(identities) > 1:
        return of_several, True
    (identity,) = identities.values()
    of_one = choose_version(series, identity, config)
    # One more file may join those that were judged together before.
    if of_one.is_new and not of_several.is_new:
        return of_several, True
    return of_one, False


def _most_nuggets(gold: GoldIndex) -> int:
    """The largest number of nuggets of any record."""
    return max((len(record.nuggets) for record in gold.records()), default=0)


def _prompt_digests(prompts: PromptSet, judge: str, form: JudgeForm) -> dict[str, str]:
    judge_prompts = prompts.of(judge).of_role(JUDGE_PROMPTS[form])
    return {prompt.name: prompt.sha256 for prompt in judge_prompts}


def _judge_form(config: JudgeConfig) -> JudgeForm:
    """What the judges are asked: of runs what their own judges were. Raises UsageError for another, or for several."""
    if not config.runs:
        return config.judge_form or "nuggets"
    runs_by_form: dict[str, Path] = {}
    for run in config.runs:
        runs_by_form.setdefault(manifest_or_empty(run).identity.judge_form or "nuggets", run)
    if len(runs_by_form) > 1:
        examples = ", ".join(f"{run} ({form})" for form, run in runs_by_form.items())
        raise UsageError(
            f"judges of these runs are asked in different forms: {examples}: judge them one by one"
        )
    ((recorded, run),) = runs_by_form.items()
    # Labels of two forms cannot be compared, and a run's judges are.
    if config.judge_form not in (None, recorded):
        raise UsageError(
            f"{run}: its judges were asked in the form {recorded}; for another one repeat its cts run with "
            f"--judge-form {config.judge_form}, which reuses all other steps"
        )
    for form in JUDGE_FORMS:
        if form == recorded:
            return form
    raise UsageError(
        f"{run}: --judge-form {recorded} is unknown here; judge it with the version that made it"
    )


def _check_prompts(prompts: PromptSet, form: JudgeForm) -> None:
    """Raise UsageError for a folder of the user's that changes no prompt of a judge."""
    folders = list(prompts.variants.values())
    if prompts.own:
        folders.insert(0, prompts)
    prompt = JUDGE_PROMPTS[form]
    for folder in folders:
        if not any(name.startswith(f"{prompt}.") for name in folder.own):
            changed = ", ".join(sorted(folder.own)) or "no prompt"
            raise UsageError(
                f"{folder.directory}: changes {changed}, but a judge uses {prompt}.en, {prompt}.zh"
            )


def short_names(files: Sequence[Path]) -> list[str]:
    """A distinct short name for each file: its stem, preceded by as many of its folders as that takes."""
    parts_by_file = [_name_parts(file) for file in files]
    n_parts = [1] * len(files)
    while True:
        names = ["-".join(parts[-n:]) for parts, n in zip(parts_by_file, n_parts, strict=True)]
        # Some file systems take two names that differ in case only for the same one.
        counts = Counter(name.casefold() for name in names)
        clashes = False
        for i, name in enumerate(names):
            if counts[name.casefold()] == 1 and name not in _RESERVED:
                continue
            if n_parts[i] == len(parts_by_file[i]):
                raise UsageError(f"--candidates: no directory can be named after {files[i]}; rename the file")
            n_parts[i] += 1
            clashes = True
        if not clashes:
            return names


def _name_parts(file: Path) -> list[str]:
    """The folders of a file and its stem, unless the stem is that of all our files and says nothing."""
    folders = [part for part in file.absolute().parts[:-1] if part not in ("/", ".", "..")]
    if file.stem in _PLAIN_NAMES and folders:
        return folders
    return folders + [file.stem]


# --- Judging


@value
class PendingVerdict:
    """A verdict to be made: of one judge on one answer. `scoring` verdicts are the results themselves."""

    judge: str
    n: int
    """Index of its target, and of that target's files."""
    judging: Judging
    scoring: bool


@value
class UnreadVerdict:
    """A `PendingVerdict` on the answer in a line of its target's file that is not parsed yet."""

    judge: str
    n: int
    line: NumberedLine
    scoring: bool


async def run_judging(plan: JudgePlan, environ: Mapping[str, str], events: Events) -> None:
    """Judge or resume. Raises RunStopped when it ends early."""
    await execute(plan, environ, events, _open_jobs)


@asynccontextmanager
async def _open_jobs(plan: JudgePlan, resources: Resources, events: Events) -> AsyncIterator[Jobs]:
    with open_verdicts(plan, events) as files:
        usual_width = plan.config.in_flight or instances_in_flight(resources)
        batch_width = batch_widths(plan.config, plan.n_answers, n_streams=len(plan.specs))
        if batch_width:
            usual_width = batch_width[0]
        streams, widths = [], []
        for judge in plan.judges:
            streams.append(_jobs(plan, resources.judge(judge), files, events))
            widths.append(width_of(judge, plan.judges, usual_width))
        yield Jobs(streams, in_flight=widths)


@contextmanager
def open_verdicts(
    plan: JudgePlan, events: Events, session_notes: SessionNotes = dict
) -> Iterator[list[RunFiles]]:
    """The files of every target, in order; emits what was found in them. Raises UsageError, StorageFull.

    `session_notes` as in `run_files.recorded_session`; finished runs record no session.
    """
    # Each judge reads the answers of all targets in turn.
    allow_more_files(len(plan.targets) * (_FILES_EACH + len(plan.judges)))
    with ExitStack() as stack:
        # The folder of several files has the journal of all.
        origins = plan.reuse.origins([*plan.directories(), plan.out], events)
        if plan.version.announcement:
            events.emit(Notice(plan.version.announcement))
        if plan.identity is None:
            files = _open_runs(plan, stack, origins, lambda text: events.emit(Notice(text)))
        else:
            files = _open_candidates(plan, stack, session_notes, origins)
        _report_found(plan, files, events)
        yield files


def _open_runs(
    plan: JudgePlan, stack: ExitStack, origins: Origins | None, notify: Callable[[str], None]
) -> list[RunFiles]:
    """Finished runs: each finds the verdicts in the others' journals, too."""
    notes, sync = plan.manifest_notes(), plan.config.sync
    runs: list[RunFiles] = []
    for target in plan.targets:
        run_files = open_finished_run(
            target.directory,
            plan.settings,
            notes,
            notify=notify,
            sync=sync,
            source=plan.source_of(target, origins),
        )
        runs.append(stack.enter_context(run_files))
    for run in runs:
        run.journal.siblings = [sibling.journal for sibling in runs if sibling is not run]
    return runs


def _open_candidates(
    plan: JudgePlan, stack: ExitStack, session_notes: SessionNotes, origins: Origins | None
) -> list[RunFiles]:
    """The files of candidates; several share one journal, in the parent directory."""
    sync = plan.config.sync
    prompts, sources = plan.judge_prompts, plan.judge_sources
    journal = None
    if plan.targets[0].shared_journal:
        # A later command may judge other files into the same directory: their names stay.
        names = list(manifest_or_empty(plan.out).systems)
        for target in plan.targets:
            if target.name not in names:
                names.append(target.name)
        notes = plan.manifest_notes() | {"systems": names}
        record = RunRecord(plan.identity or {}, notes, prompts, sources, option="--out")
        stack.enter_context(recorded_session(plan.out, record, session_notes))
        try:
            journal = Journal(plan.out / STEPS, sync=sync)
        except OSError as error:
            raise write_error(plan.out, error, verb="write there") from None
        stack.callback(journal.close)
        prompts, sources = {}, {}  # the parent directory has them for all targets
    opened = []
    for target in plan.targets:
        notes, changed = _target_notes(plan, target)
        record = RunRecord(
            target.identity or {}, notes, prompts, sources, changed, results=PER_ITEM, option="--out"
        )
        run_files = open_run_files(
            target.directory,
            record,
            sync=sync,
            journal=journal,
            source=plan.source_of(target, origins),
            session_notes=session_notes,
        )
        opened.append(stack.enter_context(run_files))
    for target, run in zip(plan.targets, opened, strict=True):
        run.written = plan.written.follow_results(target.directory / PER_ITEM)
    # One file of candidates has a journal of its own, several share one.
    plan.written.follow_journal(opened[0].journal, is_shared=journal is not None, is_custom=bool(plan.custom))
    return opened


def _target_notes(plan: JudgePlan, target: Target) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """What a target's manifest records in addition to its identity; and what changed of judges, as `with_judges`."""
    notes = plan.manifest_notes() | {"n_expected": target.n_expected}
    if target.answers.n_absent:
        notes["n_answers"] = len(target.answers)
    further_judges = dict(plan.settings)
    # The scoring judge's settings are the identity.
    further_judges.pop(target.scoring or "", None)
    judges, changed = with_judges(manifest_or_empty(target.directory), further_judges)
    if judges:
        notes["further_judges"] = judges
    if target.shared_journal:
        notes["journal"] = f"../{STEPS}"
    return notes, changed


def verdicts_left(
    plan: JudgePlan, judge: str, recorded: Sequence[RecordedWork], events: Events
) -> Iterator[PendingVerdict]:
    """The verdicts that one judge still has to make; emits what was found.

    Of a model they come in blocks: some answers of the first target, then as many of each other one, and so on.
    """
    streams = []
    for n, (target, run) in enumerate(zip(plan.targets, recorded, strict=True)):
        existing = ExistingVerdicts.of(plan, judge, target, run, events)
        streams.append(_verdicts_on(plan, judge, n, existing, events))
    return _merged(plan, judge, streams)


def verdicts_to_deal(
    plan: JudgePlan, judge: str, recorded: Sequence[RecordedWork], events: Events
) -> Iterator[PendingVerdict | UnreadVerdict]:
    """`verdicts_left` for other processes, which parse the lines of a file of which every answer is judged.

    Where answers repeat, the lines are parsed here: whose question is the same shows only then.
    """
    streams: list[Iterator[PendingVerdict | UnreadVerdict]] = []
    for n, (target, run) in enumerate(zip(plan.targets, recorded, strict=True)):
        existing = ExistingVerdicts.of(plan, judge, target, run, events)
        lines = target.answers.lines
        if lines is None or plan.repeats.n_repeated or existing.n_missing < len(target.answers):
            streams.append(_verdicts_on(plan, judge, n, existing, events))
        else:
            streams.append(_unread_verdicts(judge, n, existing, lines))
    return _merged(plan, judge, streams)


def _merged(plan: JudgePlan, judge: str, streams: Sequence[Iterator[T]]) -> Iterator[T]:
    spec = plan.specs.get(judge)
    if spec is None or len(streams) == 1:
        return chain.from_iterable(streams)
    return _in_blocks(streams, plan.config.in_flight or enough_in_flight([spec.max_concurrency]))


def _in_blocks(streams: Sequence[Iterator[T]], size: int) -> Iterator[T]:
    """Take `size` verdicts of each stream in turn.

    Providers keep the beginning of a prompt, here query and nuggets, for five minutes. Target after target, the answers
    to one query would be an hour apart; one right after the other, they would be sent before the first is answered. A
    block of as many as are in flight is just long enough for that. Files of candidates have their instances in the same
    order as a rule.
    """
    left = list(streams)
    while left:
        unfinished: list[Iterator[T]] = []
        for stream in left:
            n_taken = 0
            for verdict in islice(stream, size):
                yield verdict
                n_taken += 1
            if n_taken == size:
                unfinished.append(stream)
        left = unfinished


@dataclass(frozen=True, slots=True)
class ExistingVerdicts:
    """What a judge has made of the answers of a target."""

    answers: Answers
    scoring: bool
    verdicts: LatestLines
    retry_failed: bool
    n_missing: int
    n_outdated: int

    @classmethod
    def of(
        cls, plan: JudgePlan, judge: str, target: Target, run: RecordedWork, events: Events
    ) -> ExistingVerdicts:
        """Look it up; emits what was found."""
        answers, scoring = target.answers, target.scoring == judge
        # `cts judge RUN --judge NAME` adds what that judge lacks: of a further judge a failure is nothing to keep.
        retry_failed = plan.config.retry_failed or not scoring
        verdicts = run.finished if scoring else run.judged(judge)
        n_missing, n_outdated = verdicts.compared(
            answers.ids, answers.fingerprints, but_failures=retry_failed
        )
        if n_outdated:
            text = f"{n_outdated} answer(s) changed since {judge} judged them, and are judged again"
            events.emit(Notice(f"{target.name}: {text}"))
        n_failed = 0 if retry_failed else verdicts.n_failed
        n_done = min(len(verdicts) - verdicts.n_failed + n_failed - n_outdated, len(answers))
        events.emit(JobsFound(plan.group(judge), n_done, min(n_failed, n_done)))
        return cls(answers, scoring, verdicts, retry_failed, n_missing, n_outdated)


def _verdicts_on(
    plan: JudgePlan, judge: str, n: int, existing: ExistingVerdicts, events: Events
) -> Iterator[PendingVerdict]:
    """The verdicts that a judge still has to make on the answers of the n-th target."""
    if not existing.n_missing and not existing.n_outdated:
        return  # saves reading the answers again
    # Whether an answer has changed shows only once it has been read; whether it has no verdict, before.
    wanted: Wanted = partial(_lacks, existing.verdicts, retry=existing.retry_failed)
    if existing.n_outdated or existing.n_missing == len(existing.answers):
        wanted = any_id
    for judging in existing.answers.stream(wanted):
        if existing.n_outdated and not _needs_verdict(
            existing.verdicts, judging, retry=existing.retry_failed
        ):
            continue
        if judging.failure and not existing.scoring:  # recorded in the results only
            events.emit(JobsFound(plan.group(judge), 1, 0))
        else:
            yield PendingVerdict(judge, n, judging, existing.scoring)


def _unread_verdicts(
    judge: str, n: int, existing: ExistingVerdicts, lines: CandidateLines
) -> Iterator[UnreadVerdict]:
    for line in lines:
        yield UnreadVerdict(judge, n, line, existing.scoring)


def _lacks(verdicts: LatestLines, id: str, *, retry: bool) -> bool:
    """Whether an answer has no verdict, or only a failure that is to be tried again (`retry`)."""
    failed = verdicts.failed(id)
    return failed is None or (failed and retry)


def _needs_verdict(verdicts: LatestLines, judging: Judging, *, retry: bool) -> bool:
    """`_lacks`, or whether the verdict is about another answer, which had the same id."""
    id = judging.instance.id
    return _lacks(verdicts, id, retry=retry) or verdicts.outdated(id, judging.fingerprint)


def verdict_lines(verdict: PendingVerdict, ended: Judgment | StepError) -> EndedLines:
    """The line of a verdict: in the results with the answer, in a further judge's file with the answer's digest."""
    judging, instance = verdict.judging, verdict.judging.instance
    if isinstance(ended, StepError):
        line: Line = failure_line("", instance, ended)
        line["judge"] = verdict.judge
    else:
        line = {"id": instance.id, "fused_query": instance.intent}
        line |= judged(instance.nuggets, ended)
    if verdict.scoring:
        line["answer"] = judging.answer
        return [(None, line)]
    line["answer_digest"] = judging.answer_digest
    return [(verdict.judge, line)]


async def make_verdict(ctx: Context, *, judge: Judge, judging: Judging) -> Judgment:
    """A judge's verdict. Raises StepError, also where there is no answer to judge."""
    if judging.failure:
        raise judging.failure
    instance = judging.instance
    if not judging.answer:
        return nothing_covered(judge.name, instance.nuggets)
    return await judge.judge(ctx, JudgeView(instance.judged_by, instance.nuggets, judging.answer))


def _jobs(plan: JudgePlan, judge: Judge, files: Sequence[RunFiles], events: Events) -> Iterator[Job]:
    group = plan.group(judge.name)
    for verdict in verdicts_left(plan, judge.name, files, events):
        judging = verdict.judging
        id = plan.targets[verdict.n].job_id(judging.instance.id)
        walk = partial(make_verdict, judge=judge, judging=judging)
        lines_of = partial(verdict_lines, verdict)
        yield files[verdict.n].job(id, walk, lines_of, group=group, shared=judging in plan.repeats)


def _report_found(plan: JudgePlan, files: Sequence[RunFiles], events: Events) -> None:
    """Emit a notice for each damage of a journal, and for what is left out of the input files."""
    for journal in dict.fromkeys(run.journal for run in files):
        for text in journal.report.notices(journal.path):
            events.emit(Notice(text))
    for text in plan.remarks:
        events.emit(Notice(text))
    for target in plan.targets:
        answers = target.answers
        if answers.n_unknown:
            text = (
                f"{answers.n_unknown} of {answers.n_unknown + len(answers)} answers are left out: the gold has "
                "neither their id nor their fused_query"
            )
            events.emit(Notice(f"{target.name}: {text}"))
        if answers.n_absent:
            text = (
                f"{answers.n_absent} of {target.n_expected} instances of the gold have no answer here; they are "
                "expected, and have no score"
            )
            events.emit(Notice(f"{target.name}: {text}"))


# --- What it will take


@dataclass(frozen=True, slots=True)
class JudgeForecast:
    """The work that one judge has left."""

    judge: str
    n_left: int
    """Answers without a verdict of this judge."""
    n_questions: int
    """Distinct questions among them that it has not answered for another answer."""
    work: StepsForecast
    reused: ReusedEffort = field(default_factory=ReusedEffort)
    """Verdicts that are taken from other runs: no part of the work."""


@dataclass(frozen=True, slots=True)
class JudgingForecast:
    """The forecast of all model judges, and of their accounts."""

    judges: tuple[JudgeForecast, ...]
    lanes: tuple[LaneForecast, ...]
    ways: tuple[WayForecast, ...] = ()
    """The work asked live, and in the ways that are cheaper."""

    @property
    def total(self) -> Effort:
        return total_of(judge.work for judge in self.judges)

    @property
    def all_reused(self) -> ReusedEffort:
        """The verdicts of all judges that are taken from other runs."""
        total = ReusedEffort()
        for judge in self.judges:
            total += judge.reused
        return total

    @property
    def time_s(self) -> float:
        """Accounts work concurrently: the slowest counts."""
        return max((lane.time_s for lane in self.lanes), default=0.0)


def forecast_judging(plan: JudgePlan, found: Mapping[str, FoundVerdicts] | None = None) -> JudgingForecast:
    """Forecast judging from the answers and the existing verdicts; starts and writes nothing.

    `found` has, by judge, what `dry_walk.walk_judging` has looked up; None: nothing is reused.
    """
    found = found or {}
    judges = [_judge_forecast(plan, name, spec, found.get(name)) for name, spec in plan.specs.items()]
    lanes = lanes_of(list(plan.specs.values()), [judge.work for judge in judges])
    ways = ways_to_ask(plan.specs, [judge.work for judge in judges], Effort())
    if plan.config.uses_batches:
        work = in_batches(plan.specs, [judge.work for judge in judges])
        judges = [replace(judge, work=steps) for judge, steps in zip(judges, work, strict=True)]
    return JudgingForecast(tuple(judges), tuple(lanes), ways)


def _judge_forecast(
    plan: JudgePlan, judge: str, spec: ModelSpec, found: FoundVerdicts | None
) -> JudgeForecast:
    sampled_every = max(1, ceil(plan.n_answers / SAMPLE))
    sample: list[Judging] = []
    n_left, hashes_done = 0, set[int]()
    n_nuggets_by_hash: dict[int, int] = {}
    for target in plan.targets:
        scoring = target.scoring == judge
        path = target.directory / PER_ITEM if scoring else judgments_path(target.directory, judge)
        verdicts = LatestLines(path, judged_fingerprint)
        retry_failed = plan.config.retry_failed or not scoring
        for judging in target.answers.stream(any_id):
            if judging.failure:
                continue
            if not _needs_verdict(verdicts, judging, retry=retry_failed):
                hashes_done.add(judging.question_hash)
                continue
            if n_left % sampled_every == 0:
                sample.append(judging)
            n_left += 1
            # An empty answer needs no call.
            n_nuggets = len(judging.instance.nuggets) if judging.answer else 0
            n_nuggets_by_hash[judging.question_hash] = n_nuggets
    n_questions = n_calls = 0
    for question_hash, n_nuggets in n_nuggets_by_hash.items():
        # What has been answered for one answer is remembered for all others with the same text.
        if question_hash not in hashes_done:
            n_questions += 1
            n_calls += ceil(n_nuggets / spec.judge_nuggets)
    reused = ReusedEffort()
    if found is not None:
        n_questions, n_calls = found.n_questions, found.n_calls
        reused = reused_effort(found.walk, [spec])
    texts = [(judging.instance, judging.answer) for judging in sample]
    inputs, reply = judge_tokens(plan.prompts.of(judge), spec, texts, plan.judge_form)
    work = StepsForecast("", "judge", judge, n_calls, *step_of(spec, inputs, reply), in_a_row=1.0)
    return JudgeForecast(judge, n_left, n_questions, work, reused)
