"""The tool `ask`: one question to the user during the search, as InteractComp has it (Deng et al. 2025).

An agent has it where its system may ask (`--ask during`): the rules say how often, and how the user replies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cts_async.records import DONT_KNOW, UNKNOWN, AskRules, ReplyForm, ToolUse
from cts_async.search.asking import MAX_QUESTION_CHARS, AskSession, NoQuestionsLeft
from cts_async.search.toolbox import (
    CallEvent,
    CallRecords,
    InvalidArguments,
    Tool,
    Toolbox,
    ToolCall,
    ToolResult,
    ToolWork,
    TraceLabel,
    Wording,
)
from cts_async.search.tools import AgentSettings, recorded_texts
from cts_async.search.turn_format import distinct_texts, final_answer, first_value

REFUSED: Final = "ask_refused"
"""The kind of event of a question beyond the rules' most."""
EARLY: Final = "early_answer"
"""The kind of event of an answer that was sent back, since the rules want more questions first."""
_QUESTION_KEYS: Final = ("question", "questions", "query", "text")
_REPLY_CHARS: Final = 100
"""Characters of an average reply, with what stands around it."""


@dataclass(frozen=True, slots=True)
class AskCall(ToolCall):
    """One question to the user."""

    tool: ClassVar[str] = "ask"
    question: str

    @property
    def request(self) -> str:
        return self.question

    async def execute(self, work: ToolWork) -> ToolResult:
        """Ask the user. Raises StepError where there is no reply: the instance fails, and nothing is made up."""
        session = work.session
        if session is None:
            raise AssertionError("an agent has this tool only where it may ask")
        try:
            ask, step = await session.ask(work.ctx, self.question, work.turn)
        except NoQuestionsLeft:
            text = f"The user did not see this question: you have asked {len(session.asks)}, and no more are allowed."
            return ToolResult(text, events=(CallEvent(REFUSED, self.question),))
        text = f"The user replies: {ask.reply}\n{_what_is_left(session)}"
        event = CallEvent(self.tool, self.question, step)
        return ToolResult(text, use=ToolUse({self.tool: 1}), events=(event,))

    def replayed(self, records: CallRecords) -> Iterator[CallEvent]:
        yield CallEvent(self.tool, self.question, records.record("", "clarification_question", self.question))


def _what_is_left(session: AskSession) -> str:
    if session.n_missing:
        return f"(Ask at least {session.n_missing} more before you answer.)"
    return f"(Questions left: {session.n_left}.)"


# --- How prompts describe it

_REPLIES_EN: Final[Mapping[ReplyForm, str]] = {
    "open": f"The user replies in a few words, or `{UNKNOWN}`",
    "yes-no": f"Ask so that yes or no answers it: the user replies yes, no, or {DONT_KNOW}",
}
_REPLIES_ZH: Final[Mapping[ReplyForm, str]] = {
    "open": f"用户用几个词回答，或回答`{UNKNOWN}`",
    "yes-no": f"问题须能用是或否回答：用户只回答yes、no或{DONT_KNOW}",
}


def _english_wording(rules: AskRules) -> Wording:
    number = "one question" if rules.max_asks == 1 else f"{rules.max_asks} questions"
    limit = f"You may ask {number} in all"
    if rules.min_asks:
        limit += f", and have to ask at least {rules.min_asks} before you answer"
    description = f"Ask the user, who knows exactly what is wanted, one question. {_REPLIES_EN[rules.replies]}. {limit}."
    return Wording(description, {"question": "One short question about what is wanted."})


def _chinese_wording(rules: AskRules) -> Wording:
    limit = f"总共可以提{rules.max_asks}个问题"
    if rules.min_asks:
        limit += f"，回答之前至少要提{rules.min_asks}个"
    description = f"向清楚自己需求的用户提一个问题。{_REPLIES_ZH[rules.replies]}。{limit}。"
    return Wording(description, {"question": "关于用户需求的一个简短问题。"})


_YES_NO_EXAMPLE: Final = {"question": "Do you mean the new one?"}


class AskTool(Tool):
    """Asks the user, within the rules of a system."""

    name = AskCall.tool
    aliases = ("ask_user", "clarify")
    requests = "questions"
    labels: ClassVar[Mapping[str, TraceLabel]] = {
        "ask": TraceLabel("?", "Question", "提问"),
        REFUSED: TraceLabel("?", "Question not allowed", "未获准的提问"),
        EARLY: TraceLabel("?", "Answer sent back", "被退回的回答"),
    }
    parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {"question": {"type": "string"}}
    wording: ClassVar[Mapping[str, Wording]] = {
        "en": _english_wording(AskRules()),
        "zh": _chinese_wording(AskRules()),
    }
    example: ClassVar[Mapping[str, Any]] = {"question": "Which one do you mean?"}

    def __init__(self, rules: AskRules | None = None) -> None:
        self.rules = rules or AskRules()

    def wording_for(self, prompt: str) -> Wording:
        if prompt.endswith(".zh"):
            return _chinese_wording(self.rules)
        return _english_wording(self.rules)

    def prompt_line(self, prompt: str) -> str:
        if ".small." in prompt and self.rules.replies == "yes-no":
            # Small models ask as the example does, which yes or no would not answer.
            return json.dumps({"name": self.name, "arguments": _YES_NO_EXAMPLE})
        return super().prompt_line(prompt)

    def read(self, arguments: Mapping[str, Any]) -> AskCall:
        questions = distinct_texts(first_value(arguments, _QUESTION_KEYS), MAX_QUESTION_CHARS)
        if not questions:
            raise InvalidArguments("ask needs a question")
        if len(questions) > 1:
            raise InvalidArguments("ask takes one question; ask one after the other")
        return AskCall(questions[0])

    def grammar(self, links: Sequence[str]) -> str:
        return r'ask ::= "{\"name\": \"ask\", \"arguments\": {\"question\": " string "}}"'

    def response_chars(self, settings: AgentSettings) -> float:
        return _REPLY_CHARS

    def text_of(self, event: CallEvent, record: Mapping[str, Any]) -> str:
        """The reply as the user gave it, or an answer that was sent back."""
        text = recorded_texts(record.get("response"), ("text",), "reply")[0]
        if event.kind == EARLY:
            return final_answer(text)[0]
        return text


TOOL: Final = AskTool()


def asking_toolbox(toolbox: Toolbox, rules: AskRules) -> Toolbox:
    """The tools of an agent that may ask, too."""
    return Toolbox((*toolbox.tools, AskTool(rules)))
