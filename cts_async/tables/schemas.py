"""The fields of a run's files as they are written, and the JSON Schemas (draft 2020-12) that are made of them.

Each class is an object in one of the files, hence its name; its text and those of its fields are the schema's
descriptions. They say what this version writes, and what kept runs of version 0.6 and later have. The readers in
`cts_async.runs` accept more, such as null for an absent field, since earlier versions wrote it, and a file may be
damaged or edited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, with_config
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import TypedDict

from cts_async.records import Coverage

_described: Final = with_config(ConfigDict(use_attribute_docstrings=True))
"""Makes the text below a field its description in the schema; that of a class is its own in any case."""

# --- Common types

Count = Annotated[int, Field(ge=0)]
Score = Annotated[float, Field(ge=0, le=100)]
Texts: TypeAlias = list[str]
Tokens = Annotated[
    dict[str, dict[str, Count]],
    Field(description="by model: input and output, and parts of them as in a step's usage"),
]
Intent = Annotated[str, Field(description="the hidden intent q*")]
Query = Annotated[str, Field(description="the underspecified query q")]
RestoreScore = Annotated[
    Score | None,
    Field(description="100 * sum(weight * coverage) / sum(weight); full 1, partial 0.5, none 0"),
]
Judge = Annotated[str | None, Field(description="who gave the labels; null without judging")]
AnswerFrom = Annotated[str, Field(description="where the answer was found in the agent's text")]
Further = Annotated[
    dict[str, dict[str, Any]],
    Field(description="by step, fields of a reply beyond its form; absent without any"),
]
Domain = Annotated[str, Field(description="the field of knowledge, of data that name one")]
Confidence = Annotated[
    float | None,
    Field(
        ge=0,
        le=100,
        description="how sure the agent said it is of its answer; null if it did not say, absent if it was not asked",
    ),
]
AnswerDigest = Annotated[str, Field(description="identifies the answer that was judged")]
UserAnswers = Annotated[Texts, Field(description="of the user, one for each question")]
CostUsd = Annotated[float | None, Field(description="null if a model has no price")]
SmokeTest = Annotated[
    bool,
    Field(description="the embedded model played a role: the scores say nothing about clarification"),
]
MadeUp = Annotated[
    Literal[True],
    Field(description="made up by `cts demo`: no score is a model's; absent from all other runs"),
]
FixedTemperature = Annotated[
    Literal[0],
    Field(
        description="User Answerer, Rewriter and judges are asked at temperature 0 although their models' tables set "
        "none; absent where no model is of this kind, and from runs begun before 0.12"
    ),
]


@_described
class ErrorJson(TypedDict):
    """why an instance failed for good; never a score"""

    step: str
    """the step that failed"""
    kind: str
    """what kind of failure"""
    message: str


class NuggetJson(TypedDict):
    id: str
    weight: Annotated[float, Field(gt=0)]
    coverage: Coverage


class ToolFailuresJson(TypedDict):
    tool: str
    host: str
    reason: str
    n: Count


# --- run.json


class DataIdentityJson(TypedDict, total=False):
    name: str
    sha256: str | None
    gold_sha256: str | None


@_described
class AskRulesJson(TypedDict):
    """how an agent may ask the user"""

    max: Count
    """questions that it may ask"""
    min: NotRequired[Count]
    """questions that it has to ask before it may answer"""
    replies: Literal["open", "yes-no"]
    """open: a short phrase or `unknown`; yes-no: exactly one of yes, no, and i don't know"""


@_described
class IdentityJson(TypedDict, total=False):
    """everything that determines the results: a resumed run must agree with it"""

    system: str
    k: Count
    task: str
    scheme: str
    mode: str
    data: DataIdentityJson
    answers: dict[str, Any]
    rewrites: dict[str, Any]
    """rewritten queries that were given"""
    stop_after: str
    """the stage that a run without a search ends with"""
    models: dict[str, dict[str, Any]]
    """what determines each player's replies, by role"""
    agent: dict[str, Any]
    corpus_sha256: str | None
    tools: dict[str, Any]
    prompts: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]
    """sha256 of each prompt"""
    judges: Texts
    """the scoring judge first"""
    nuggets_per_call: dict[str, Any] | int
    judge_form: str
    """what the judges were asked; absent where it was a label for every nugget"""
    agent_prompt: str
    empty_answers: str
    current_date: str
    seed: int
    as_published: bool
    """the paper's protocol was played to the letter; absent from all other runs"""
    agent_tools: dict[str, str]
    """the versions of the agent's tools by name; absent for the usual ones"""
    asks: AskRulesJson
    """the agent may ask the user during its search; absent where it may not"""
    inject_at: Annotated[float, Field(ge=0, lt=1)]
    """the share of its turns after which the agent is given answers of before the search; absent where it is not"""
    evidence: dict[str, Any]
    candidates: str
    """of cts judge: the file of the answers"""
    gold_sha256: str
    join: str


class DataFilesJson(TypedDict, total=False):
    spec: str
    path: str
    gold: str | None
    fields: dict[str, str]
    corpus: str | None
    skip_bad_gold: bool
    notes: Texts
    restriction: str
    """why the text of the data must not be published; absent where it may"""


@_described
class SessionJson(TypedDict):
    start: str
    end: str | None
    wall_s: float | None
    stopped: NotRequired[str]
    """why it ended early"""
    workers: NotRequired[Count]
    """of a cluster"""
    hosts: NotRequired[Count]
    lost: NotRequired[Count]
    """workers that died"""


@_described
class RunJson(TypedDict):
    identity: IdentityJson
    command: NotRequired[str]
    config_files: NotRequired[Texts]
    """where the user has a cts.toml: the files that the last command read, each over those before it"""
    data: NotRequired[DataFilesJson]
    tools: NotRequired[dict[str, Any]]
    players: NotRequired[dict[str, str | None]]
    """who plays which role"""
    prices: NotRequired[dict[str, dict[str, float | None]]]
    """dollars for a million tokens by model: input and output; cached and cache_write, where they have prices of their
    own; "@TIER" is a factor over all of them"""
    tiers: NotRequired[dict[str, str]]
    """by model: the cheaper tier in which it was asked; absent where all were asked live"""
    embedded: NotRequired[bool]
    """the embedded model plays a role"""
    demo: NotRequired[MadeUp]
    run_version: NotRequired[Annotated[int, Field(ge=1)]]
    """the number of the version: NAME.vN is version N of NAME"""
    lineage: NotRequired[str]
    """the name of the system, where it differs from that of the first version's folder: of the runs of one lineage in a
    folder the newest is shown"""
    changed: NotRequired[Texts]
    """what changed from the version before"""
    changed_from: NotRequired[str]
    """the folder of that version"""
    reuses: NotRequired[bool]
    """steps of other runs may be taken"""
    shares_sampled: NotRequired[bool]
    """sampled steps were taken from other systems' runs, too"""
    fixed_temperature: NotRequired[FixedTemperature]
    n_expected: Count
    n_answers: NotRequired[Count]
    """candidates that were judged, where the gold has more instances than these; absent if each has one"""
    forecast: NotRequired[dict[str, Any]]
    agent_mode: NotRequired[str]
    """as-published, tongyi or mixed; absent in strict mode. The switches that are on stand in the identity's agent"""
    given: NotRequired[dict[str, str]]
    """where given questions or rewritten queries were read"""
    further_judges: NotRequired[dict[str, dict[str, Any]]]
    systems: NotRequired[Texts]
    """of cts judge: the folders with the verdicts"""
    journal: NotRequired[str]
    """of cts judge: the journal that several folders share"""
    version: str
    """of cts_async, in the last session"""
    sessions: list[SessionJson]


# --- steps.jsonl


class UsageJson(TypedDict, total=False):
    """tokens charged, failed attempts included"""

    input: Count
    output: Count
    cached: Count
    """of the input: read from the provider's cache; absent without any"""
    cache_write: Count
    """of the input: written to it, at a price of its own. What was charged in a cheaper tier stands once more in fields
    such as "input@flex" """


class AssumedJson(TypedDict):
    """what a budget counts for attempts whose charge is unknown"""

    tokens: Count
    usd: float


class FailedAttemptJson(TypedDict):
    kind: str
    message: str
    latency_s: float
    text: NotRequired[str]
    usage: NotRequired[UsageJson]


@with_config(
    ConfigDict(
        use_attribute_docstrings=True,
        json_schema_extra={
            "if": {"properties": {"ok": {"const": True}}},
            "then": {"required": ["response"]},
            "else": {"required": ["error"]},
        },
    )
)
class StepJson(TypedDict):
    key: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    """digest of everything that determines the step"""
    ok: bool
    instance: str
    step: str
    model: NotRequired[str]
    """the model's name at its provider; absent for tools and code of the user's"""
    request: NotRequired[Any]
    """what is new in the request"""
    notes: NotRequired[dict[str, Any]]
    """for readers; in a turn of the agent `calls`, what became of the calls of the turn before"""
    response: NotRequired[Any]
    """the recorded result"""
    error: NotRequired[dict[str, Any]]
    latency_s: NotRequired[float]
    """seconds of the attempt that succeeded"""
    assumed: NotRequired[AssumedJson]
    usage: NotRequired[UsageJson]
    attempts: NotRequired[Count]
    failed_attempts: NotRequired[list[FailedAttemptJson]]
    time: float
    """when it ended, seconds since 1970"""
    reused: NotRequired[str]
    """the run that executed the step, and paid for it: its folder, below that of the runs"""


# --- results.jsonl


@_described
class ToolUseJson(TypedDict):
    searches: Count
    visits: Count
    others: NotRequired[dict[str, Count]]
    """requests to further tools, by name"""
    failed: list[ToolFailuresJson]
    lexical: Count
    """pages read without a model"""


@_described
class AskJson(TypedDict):
    """a question of the agent to the user during its search"""

    question: str
    reply: str
    turn: Annotated[int, Field(ge=1)]
    """the agent's turn in which it asked"""


Asks = Annotated[
    list[AskJson],
    Field(description="the agent's questions to the user during its search; absent where it may not ask"),
]
InjectedTurn = Annotated[
    Annotated[int, Field(ge=1)] | None,
    Field(
        description="the turn before which the agent was given the answers of before its search; null if the search had "
        "ended, absent where they are not given"
    ),
]


@_described
class SearchJson(TypedDict):
    model_calls: Count
    searches: Count
    visits: Count
    others: NotRequired[dict[str, Count]]
    """calls of further tools, by name"""
    forced: bool
    """the agent was made to answer at its last turn"""
    unanswered: NotRequired[bool]
    """its turns or its room were used up, and no answer was demanded"""
    made_up: NotRequired[Count]
    """tool responses that the agent wrote itself"""
    turns: NotRequired[Count]
    """all turns of an agent that may ask the user"""
    asks_refused: NotRequired[Count]
    """questions beyond those allowed, which the user never saw"""
    early_answers: NotRequired[Count]
    """answers that were sent back, since more questions had to be asked first"""
    tools: ToolUseJson


@_described
class TurnJson(TypedDict, total=False):
    offered: Texts
    """questions or queries that the Clarifier offered"""
    types: Texts
    reasoning: str
    answers: Texts
    chosen: int | str
    """what the user chose"""
    query: str


class _AskedJson(TypedDict):
    """What every line of `cts run` and `cts converse` has."""

    id: str
    system: str
    fused_query: Intent
    blurred_query: Query
    domain: NotRequired[Domain]
    scheme: NotRequired[str]
    mode: NotRequired[str]
    turns: NotRequired[list[TurnJson]]
    further: NotRequired[Further]


class AnsweredJson(_AskedJson):
    """an instance of cts run with an answer"""

    k: Count
    questions: Texts
    answers: UserAnswers
    rewritten_query: NotRequired[str | None]
    answer: str
    answer_from: NotRequired[AnswerFrom]
    confidence: NotRequired[Confidence]
    asks: NotRequired[Asks]
    injected_turn: NotRequired[InjectedTurn]
    search: NotRequired[SearchJson]
    judge: NotRequired[Judge]
    nuggets: NotRequired[list[NuggetJson] | None]
    restore_score_100: NotRequired[RestoreScore]


class UnsearchedJson(_AskedJson):
    """an instance of cts run --stop-after"""

    k: Count
    questions: Texts
    answers: NotRequired[Texts]
    rewritten_query: NotRequired[str]


class ConversationJson(TypedDict):
    """a conversation of cts converse"""

    id: str
    system: str
    fused_query: Intent
    blurred_query: Query
    k: Count
    questions: NotRequired[Texts]
    answers: NotRequired[Texts]
    scheme: str
    mode: str
    turns: list[TurnJson]


class BuiltGoldJson(TypedDict):
    """an intent of cts gold"""

    id: str
    system: Literal["goldbuild"]
    fused_query: str
    gold: dict[str, Any]
    answer: str
    answer_from: NotRequired[str]
    search: NotRequired[SearchJson]
    sources: list[dict[str, Any]]
    evidence: NotRequired[dict[str, Any]]
    grounding: NotRequired[Any]
    repairs: NotRequired[Any]
    provenance: NotRequired[dict[str, Any]]


@_described
class FailedInstanceJson(_AskedJson):
    """an instance that failed, with what was made before; version 0.11 and before wrote the error alone"""

    k: NotRequired[Count]
    questions: NotRequired[Texts]
    answers: NotRequired[UserAnswers]
    rewritten_query: NotRequired[str | None]
    answer: NotRequired[str]
    """only the judge failed: further judges label it all the same"""
    answer_from: NotRequired[AnswerFrom]
    confidence: NotRequired[Confidence]
    asks: NotRequired[Asks]
    injected_turn: NotRequired[InjectedTurn]
    search: NotRequired[SearchJson]
    judge: NotRequired[str]
    """who failed to label the answer"""
    error: ErrorJson


# --- judgments/JUDGE.jsonl, per_item.jsonl


class VerdictJson(TypedDict):
    """a verdict"""

    id: str
    fused_query: NotRequired[str]
    judge: Judge
    nuggets: list[NuggetJson] | None
    restore_score_100: RestoreScore
    answer_digest: NotRequired[AnswerDigest]
    answer: NotRequired[str]


class FailedVerdictJson(TypedDict):
    """an answer that the judge failed to label"""

    id: str
    system: NotRequired[str]
    fused_query: NotRequired[Intent]
    blurred_query: NotRequired[Query]
    error: ErrorJson
    judge: str
    answer_digest: NotRequired[AnswerDigest]
    answer: NotRequired[str]


# --- summary.json


class JudgeSummaryJson(TypedDict):
    n_expected: Count
    n_scored: Count
    n_failed: Count
    n_unjudged: Count
    mean: Score | None
    p50: Score | None
    p90: Score | None
    min: Score | None
    max: Score | None
    mean_failed_as_0: Score | None


@_described
class ToolCallsJson(TypedDict):
    asked: Count
    failed: Count
    worked: float | None
    """share, 0 to 1"""


class UnansweredJson(TypedDict):
    n: Annotated[int, Field(ge=1)]
    share: Annotated[float, Field(ge=0, le=1)]
    """of the instances"""


@_described
class ToolHealthJson(TypedDict):
    searches: ToolCallsJson
    visits: ToolCallsJson
    others: NotRequired[dict[str, ToolCallsJson]]
    """further tools, by name"""
    read_lexically: Count
    failures: list[ToolFailuresJson]
    other_failures: Count


class ConfidenceBinJson(TypedDict):
    """the answers whose confidence is in one bin"""

    low: Score
    high: Score
    n: Annotated[int, Field(ge=1)]
    confidence: Score
    accuracy: Score


@_described
class AskCountsJson(TypedDict):
    """questions of the agent to the user during its searches, without those that failed"""

    n: Count
    """questions, repeated ones included"""
    per_instance: float | None
    unknown_share: Annotated[float, Field(ge=0, le=1)] | None
    """of the replies: unknown, or i don't know; null without a question"""
    without_question: Count
    """instances in which it asked nothing"""
    refused: Count
    """questions beyond those allowed, which the user never saw"""
    early_answers: Count
    """answers that were sent back, since more questions had to be asked first"""


@_described
class ConfidenceJson(TypedDict):
    """how sure the agent said it is of its scored answers"""

    n_answers: Count
    n_stated: Count
    unstated_share: Annotated[float, Field(ge=0, le=1)]
    """of the answers"""
    mean: Score | None
    """of the confidences"""
    accuracy: Score | None
    """mean score of the answers that state one"""
    calibration_error: Score | None
    """expected calibration error (Naeini et al. 2015), in points"""
    bins: list[ConfidenceBinJson]
    """without empty ones"""


@_described
class ReusedJson(TypedDict):
    """steps that were taken from other runs, and what they took there"""

    steps: Count
    of_steps: Count
    """all finished steps, those that the run executed itself included"""
    calls: Count
    tokens: dict[str, dict[str, Count]]
    priced_usd: float
    unpriced_models: Count


@_described
class RunSummaryJson(JudgeSummaryJson):
    """of a run, or of judged candidates"""

    version: NotRequired[str]
    """of cts-async, that wrote it; absent before 0.13, and in a release"""
    n: Count
    """the same as n_scored"""
    judge: str | None
    """the scoring judge"""
    judges: dict[str, JudgeSummaryJson]
    judge_failures: NotRequired[dict[str, Annotated[int, Field(ge=1)]]]
    """by judge: of its n_failed, the answers that it failed to label; absent without any"""
    agreement: list[dict[str, Any]]
    """of the lexical judge with each other one"""
    ua_unknown_rate: float | None
    """share of the user's answers that are unknown"""
    all_unknown_rate: float | None
    """share of instances whose answers are all unknown"""
    unknown_paraphrased: NotRequired[Count]
    """replies of the user that mean unknown without being exactly that word"""
    calls: Count
    failed_attempts: Count
    tokens: Tokens
    served_models: dict[str, dict[str, Count]]
    """by requested model: replies by the model that answered"""
    dropped_parameters: NotRequired[dict[str, dict[str, Count]]]
    other_tiers: NotRequired[dict[str, dict[str, Count]]]
    """by model: replies that were served in another tier than asked for, by its name; absent without any"""
    replies_without_usage: NotRequired[dict[str, dict[str, Count]]]
    """by model: replies that named no tokens, by kind of step; absent without any"""
    priced_usd: NotRequired[float]
    """dollars that are known"""
    unpriced_models: NotRequired[Count]
    """models that were called and whose dollars are not all known: without a price, or with replies without usage"""
    latency_per_instance_s: NotRequired[float | None]
    """median over the instances of the seconds that their model calls took"""
    cost_usd: CostUsd
    reused: NotRequired[ReusedJson]
    wall_s: float
    unanswered: NotRequired[UnansweredJson]
    """searches that ended without an answer, as none was demanded; absent without any"""
    confidence: NotRequired[ConfidenceJson]
    """absent where the agent was not asked how sure it is"""
    asks: NotRequired[AskCountsJson]
    """absent where the agent may not ask"""
    tool_health: ToolHealthJson
    smoke_test: SmokeTest
    made_up: NotRequired[MadeUp]


class NuggetsPerIntentJson(TypedDict):
    mean: float | None
    min: Count | None
    max: Count | None


class GroundingJson(TypedDict):
    mean: float | None
    grounded: Count
    grounded_share: float | None
    better_elsewhere: Count


@_described
class GoldSummaryJson(TypedDict):
    """of cts gold"""

    n_expected: Count
    n_done: Count
    n_failed: Count
    nuggets: Count
    nuggets_per_intent: NuggetsPerIntentJson
    weights: dict[str, Count]
    """number of nuggets by weight"""
    sources_per_nugget: float | None
    grounding: GroundingJson
    repaired: Count
    """intents whose reply was asked for again"""
    evidence_limited: Count
    suspicious: list[dict[str, Any]]
    calls: Count
    failed_attempts: Count
    tokens: Tokens
    cost_usd: CostUsd
    wall_s: float
    smoke_test: SmokeTest
    made_up: NotRequired[MadeUp]


# --- Schemas

_FILES: Final[Mapping[str, tuple[str, Any]]] = {
    "judgments": (
        "A line of judgments/JUDGE.jsonl, or of per_item.jsonl (cts judge --candidates): one verdict; a later line with "
        "the same id supersedes an earlier one",
        VerdictJson | FailedVerdictJson,
    ),
    "results": (
        "A line of results.jsonl: one finished instance; a later line with the same id supersedes an earlier one",
        AnsweredJson | UnsearchedJson | ConversationJson | BuiltGoldJson | FailedInstanceJson,
    ),
    "run": ("run.json: what determines a run, and each execution of its command", RunJson),
    "steps": ("A line of steps.jsonl, the journal: one executed step", StepJson),
    "summary": ("summary.json: what a run's files add up to", RunSummaryJson | GoldSummaryJson),
}


class _Generator(GenerateJsonSchema):
    """Schemas without titles made of the names of classes and fields, which would say nothing new."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        schema_json = super().typed_dict_schema(schema)
        schema_json.pop("title", None)
        return schema_json


def run_schemas() -> dict[str, bytes]:
    """Return the JSON Schema of each of a run's files by file name, such as results.schema.json."""
    files: dict[str, bytes] = {}
    for kind, (title, type_of_lines) in _FILES.items():
        schema = {
            "$schema": GenerateJsonSchema.schema_dialect,
            "$id": f"urn:cts_async:{kind}",
            "title": title,
            **TypeAdapter(type_of_lines).json_schema(schema_generator=_Generator),
        }
        files[f"{kind}.schema.json"] = orjson.dumps(
            schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        )
    return files
