"""The records of clarify-then-search: plain frozen values that every module may import, and the decorator of hot ones.

The hidden intent query q* is `intent`, the underspecified query q is `query`, the rewritten query q-hat is
`rewritten_query`. Files, prompts and the views of roles use the names of the paper's release for the first two (Huang et
al., KDD 2026): `fused_query` and `blurred_query`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, dataclass_transform
from unicodedata import category

from cts_async.errors import StepError

Coverage = Literal["full", "partial", "none"]
Scheme = Literal["cts", "standard", "at-standard", "cot", "at-cot"]
Mode = Literal["at-once", "respond", "select"]
EmptyAnswers = Literal["fail", "zero"]
AgentMode = Literal["strict", "as-published", "tongyi"]
Stage = Literal["questions", "answers", "rewrite"]
JudgeForm = Literal["nuggets", "match"]
AskTime = Literal["never", "before", "during", "both"]
ReplyForm = Literal["open", "yes-no"]
AmbiguityType = Literal["semantic", "generalize", "specify"]
Language = Literal["en", "zh"]
AgentPrompt = Literal["native", "tongyi", "en", "zh", "query"]

COVERAGES: Final[tuple[Coverage, ...]] = ("full", "partial", "none")
SCHEMES: Final[tuple[Scheme, ...]] = ("cts", "standard", "at-standard", "cot", "at-cot")
"""How a Clarifier is prompted: as the benchmark does, and the four schemes of AT-CoT (SIGIR 2025, table 2)."""
MODES: Final[tuple[Mode, ...]] = ("at-once", "respond", "select")
"""How a Clarifier interacts with the user: all questions at once (CTS), one question a turn, or reformulated queries
to choose from at each turn (AT-CoT, section 4.2)."""
STAGES: Final[tuple[Stage, ...]] = ("questions", "answers", "rewrite")
"""What happens before the search, in order."""
AGENT_PROMPTS: Final[tuple[AgentPrompt, ...]] = ("native", "tongyi", "en", "zh", "query")
"""The deep-search agent's prompt: WebDancer's training format, Tongyi DeepResearch's, English, Chinese, or the language
of the query."""
DEFAULT_TOOLS: Final = ("search", "visit")
"""The deep-search agent's tools in WebDancer, and in every run that does not say otherwise."""
AMBIGUITY_TYPES: Final[tuple[AmbiguityType, ...]] = ("semantic", "generalize", "specify")
"""The action-based taxonomy of AT-CoT (table 1)."""
JUDGE_FORMS: Final[tuple[JudgeForm, ...]] = ("nuggets", "match")
"""What a judge is asked: a label for every nugget (paper, section 4.4.1), or whether the answer names the same entity as
the only nugget, yes or no (InteractComp)."""
ANSWER_IS: Final[Mapping[Language, str]] = {"en": "The answer is ", "zh": "答案是"}
"""How the nugget begins of a dataset that has one right answer to each question."""
NOT_TO_BE_PUBLISHED: Final = "not_to_be_published"
"""The field of exported candidates and built gold that says why their texts must not be published, if they must not."""
UNKNOWN: Final = "unknown"
"""The User Answerer's reply if the intent does not specify what was asked (paper, section 3.2)."""
DONT_KNOW: Final = "i don't know"
"""The same among the replies "yes-no", in the words of InteractComp's user (Deng et al. 2025)."""
ASK_TIMES: Final[tuple[AskTime, ...]] = ("never", "before", "during", "both")
"""When a system asks the user: never, before the search (the Clarifier), during it (the agent), or both."""
REPLY_FORMS: Final[tuple[ReplyForm, ...]] = ("open", "yes-no")
"""What the user replies to an agent: a short phrase or `unknown` (CTS), or exactly yes, no or "i don't know"
(InteractComp)."""

Caveat: TypeAlias = Literal["", "smoke test", "made up"]
"""Why a run's scores say nothing about a model: the embedded model played, or the scripts of `cts demo`. "": they do."""
SMOKE_TEST: Final = "smoke test"
MADE_UP: Final = "made up"


def caveats_in(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """The distinct caveats of several runs, without ""."""
    return tuple(dict.fromkeys(caveat for caveat in caveats if caveat))


_IDEOGRAPH: Final = re.compile("[㐀-鿿豈-﫿]")


# --- Dataclasses for the hot path
#
# A frozen dataclass sets every field through `object.__setattr__`: for the twenty objects of one judged candidate that
# took a twelfth of all time. Objects outside the hot path are really frozen. Values are pickled as their class and a
# tuple of fields, which takes a quarter of the bytes of a pickle with field names.

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a slotted dataclass, compared and hashed by its fields; the type checker forbids assignments to it."""
    slotted = dataclass(slots=True, unsafe_hash=True)(cls)
    slotted.__reduce__ = _reducer(slotted)  # type: ignore[method-assign, assignment]
    return slotted


@dataclass_transform()
def message(cls: type[T]) -> type[T]:
    """Make a slotted dataclass whose fields are filled one by one, and which is pickled like a `value`."""
    slotted = dataclass(slots=True)(cls)
    slotted.__reduce__ = _reducer(slotted)  # type: ignore[method-assign, assignment]
    return slotted


def _reducer(cls: type[T]) -> Callable[[T], tuple[type[T], tuple[Any, ...]]]:
    """Return the `__reduce__` of a class: its constructor and its fields in order."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    if len(names) < 2:  # attrgetter returns a tuple only for several names
        return lambda instance: (cls, tuple(getattr(instance, name) for name in names))
    fields_of = attrgetter(*names)
    return lambda instance: (cls, fields_of(instance))


# --- The records


@dataclass(frozen=True, slots=True)
class Nugget:
    """One atomic, judgeable statement of the gold, with its importance (paper, section 4.2).

    `weight` is 3 (core), 2 (important) or 1 (supplemental); releases may carry other positive numbers.
    `source_ids` name its evidence; empty if a release omits them.
    """

    id: str
    text: str
    weight: float
    source_ids: tuple[str, ...] = ()


MAX_REMEMBERED: Final = 4096
"""Tuples of nuggets of which something is remembered: each takes a few kilobytes at most."""


class NuggetMemo(Generic[T]):
    """What is made of nuggets, once for each tuple: many answers are judged by the very same one."""

    def __init__(self, make: Callable[[tuple[Nugget, ...]], T]) -> None:
        self._make = make
        self._made: dict[int, tuple[tuple[Nugget, ...], T]] = {}
        """By identity of the tuple, kept so that it stays its own: hashing nuggets takes as long as most of this."""

    def get(self, nuggets: tuple[Nugget, ...]) -> T:
        """What is made of these nuggets."""
        entry = self._made.get(id(nuggets))
        if entry is None:
            if len(self._made) >= MAX_REMEMBERED:
                self._made.clear()
            entry = nuggets, self._make(nuggets)
            self._made[id(nuggets)] = entry
        return entry[1]


@value
class Instance:
    """A pair (q*, q). `nuggets` is empty without gold: such an instance can be run but not scored.

    `judged_query` is what judges are asked about, where that is not q*: the intent of InteractComp has a context that
    helps to find the answer, and is no part of the question that is graded. `domain` is the field of knowledge that a
    dataset names ("Sports"); "" where it names none.
    """

    id: str
    intent: str
    query: str
    nuggets: tuple[Nugget, ...] = ()
    judged_query: str = ""
    domain: str = ""

    @property
    def judged_by(self) -> str:
        """The query that judges see."""
        return self.judged_query or self.intent


@value
class Candidate:
    """An existing answer to `intent`, to be judged against that intent's nuggets."""

    id: str
    intent: str
    answer: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The User Answerer's reply to one question; `unknown` if the intent does not specify it."""

    text: str
    unknown: bool


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn of a conversation by an AT-CoT scheme or mode.

    `offered` are the questions to the user, or in mode "select" the reformulated queries; `types` the ambiguity
    types that the Clarifier named ("at-cot" only) and `reasoning` its reasoning ("" for schemes without). `answers`
    has one for each question; `chosen` is the index of the query that the user picked (None outside "select").
    `query` is the query after this turn, "" if it was not reformulated.
    """

    offered: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()
    reasoning: str = ""
    answers: tuple[Answer, ...] = ()
    chosen: int | None = None
    query: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of evidence from a search: a result's snippet, or the text of a visited page."""

    url: str
    title: str
    text: str
    kind: Literal["snippet", "page"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One event of a deep-search trace, in order.

    `kind` is "think", the name of a tool ("search", "visit"), "invalid" (an unreadable call), "repeated" (a call made
    before, not made again), "made_up" (a tool response that the model wrote itself, cut off with everything after it),
    "dropped" (an earlier tool response that no longer fits the context; `request` names its turn), "cut" (the same, cut
    in its middle), "forced" (the turns or the context were used up and the answer was demanded), "unanswered" (they were
    used up and none was demanded), "injected" (answers elicited before the search were given to the agent),
    "ask_refused" (a question beyond those that are allowed), "early_answer" (an answer before the questions that have
    to be asked) or "answer". `request` is the agent's request
    to a tool and `text` the thought, result or answer. `sources` are the results of a tool call, as data.
    """

    kind: str
    text: str
    request: str = ""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """A request to a tool that failed, such as a search or a visit. `host` is the host asked (for a search, the engine)
    and `reason` a short stable word such as "timeout" or "http 404"."""

    tool: str
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Numbers of requests by tool (queries searched, pages visited), failed ones included, and the failures.

    `lexical` counts pages that were read by matching words because the model that should read them failed, `empty`
    the searches that worked and found nothing.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[ToolFailure, ...] = ()
    lexical: int = 0
    empty: int = 0


@dataclass(frozen=True, slots=True)
class AskRules:
    """How often an agent may ask the user during its search, how often it has to, and in which form the user replies."""

    max_asks: int = 3
    min_asks: int = 0
    """Questions that it has to ask before it may answer; InteractComp's mode "forced" has 5."""
    replies: ReplyForm = "open"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of the agent to the user, and the reply."""

    question: str
    reply: str
    turn: int
    """The turn in which it was asked, from 1. Of code of the user's a turn is each thing that it asks of the run."""

    @property
    def unknown(self) -> bool:
        """Whether the user does not know, or does not say."""
        return self.reply in (UNKNOWN, DONT_KNOW)


@dataclass(frozen=True, slots=True)
class AskLog:
    """What an agent that may ask the user has asked during a search of `n_turns` turns."""

    asks: tuple[Ask, ...]
    n_turns: int
    n_refused: int = 0
    """Questions beyond the rules' most, which the user never saw."""
    n_early: int = 0
    """Answers that were sent back, since the rules want more questions first."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Before which turn (from 1) the answers that were elicited before the search were given to the agent.

    None: the search had ended by then.
    """

    turn: int | None


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of a deep-search agent for one query, and its answer.

    `answer_from` says how the answer was found: "tag" (closed), "open_tag" (never closed) or "last_turn" (no tag);
    these fallbacks are those of the paper, section 4.3.
    """

    turns: tuple[Turn, ...]
    answer: str
    answer_from: Literal["tag", "open_tag", "last_turn"]
    model_calls: int
    forced: bool
    tools: ToolUse = field(default_factory=ToolUse)
    asked: AskLog | None = None
    """None: the agent could not ask."""
    delivered: Delivered | None = None
    """None: nothing was to be given to it later."""
    confidence: float | None = None
    """How sure the agent said it is, from 0 to 100; None if it was not asked, or said nothing that can be read."""


@value
class Judgment:
    """A judge's coverage label for each nugget, in the order of the gold (paper, section 4.4.1)."""

    judge: str
    coverage: tuple[tuple[str, Coverage], ...]
    """Pairs (nugget id, label), each nugget exactly once."""


Verdicts: TypeAlias = Mapping[str, Judgment | StepError | None]
"""By judge: its labels, the error that it failed with, or None if it has still to judge (its provider is gone)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an instance has no outcome. A failure is never a score."""

    step: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the protocol produced for one instance.

    Without a search `trace` is None, and what comes after the run's last stage is empty.
    """

    instance: Instance
    k: int
    questions: tuple[str, ...]
    answers: tuple[Answer, ...] = ()
    rewritten_query: str = ""
    trace: Trace | None = None
    verdicts: Verdicts = field(default_factory=dict)
    """The scoring judge's first; empty without a judge."""
    turns: tuple[ConversationTurn, ...] = ()
    """The conversation, for every scheme and mode but the benchmark's own, which has none."""
    further: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step, what its reply had beyond its form, by name: for people, never for another role."""
    asks_confidence: bool = False
    """Whether the agent was asked how sure it is of its answer."""


def language_of(text: str) -> Language:
    """Return "zh" if the text contains a CJK ideograph, else "en": the language of a query decides its prompts."""
    # ASCII first, which is quicker: it needs no search.
    if text.isascii() or _IDEOGRAPH.search(text) is None:
        return "en"
    return "zh"


def stated_answer(nugget: Nugget) -> str:
    """Return the right answer that a nugget states, without `ANSWER_IS`; of any other nugget its text."""
    for beginning in ANSWER_IS.values():
        if nugget.text.startswith(beginning):
            return nugget.text.removeprefix(beginning)
    return nugget.text


@lru_cache  # each line of a results file names its judge
def is_one_line(name: str) -> bool:
    """True if a name has no control characters and no line breaks, so that it can be printed and typed again."""
    return not any(category(character) in ("Cc", "Zl", "Zp") for character in name)


JUDGING: Final = "judge/"
"""The steps of judges are named judge/NAME, and what code of the user's asks there judge/NAME/..."""
