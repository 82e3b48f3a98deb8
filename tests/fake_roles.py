"""What the fake provider says in each role: the same conversation always gets the same answer."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence

Messages = Sequence[Mapping[str, str]]
LABELS = ("full", "partial", "none")

_MARKS = {
    "qa_pairs": "rewrite",
    "clear_query": "answer",
    "sources": "gold",
    "nuggets": "judge",
    "correct_answer": "match",
    "blurred_query": "clarify",
}
"""The tag by which each role's prompt is known, the first that is there; none is the agent's."""

_TALK = {
    "offered_queries": "select_query",
    "clear_query": "respond",
    "blurred_query": "clarify_turn",
    "conversation": "reformulate",
}
"""The same for prompts that show a conversation."""


def role_of(asked: str) -> str:
    """The role a user message belongs to, by the tags that fence its fields."""
    role_by_tag = _MARKS
    if "<conversation>" in asked:
        role_by_tag = _TALK
    for tag, role in role_by_tag.items():
        if f"<{tag}>" in asked:
            return role
    return "agent"


def field_of(text: str, tag: str) -> str:
    """What stands between `<tag>` and `</tag>`."""
    match = re.search(rf"<{tag}>\s*(.*?)\s*</{tag}>", text, re.DOTALL)
    if match is None:
        return ""
    return match[1]


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on `parts` alone."""
    return zlib.crc32("\x1f".join(map(str, parts)).encode()) / 2**32


def _clarify(asked: str, messages: Messages, unknown_share: float) -> str:
    k = int(re.findall(r"^K = (\d+)", asked, re.MULTILINE)[-1])
    query, aspects = field_of(asked, "blurred_query"), ("time", "place", "kind", "price")[:k]
    return json.dumps([f"Which {aspect} do you mean by {query}?" for aspect in aspects], ensure_ascii=False)


YES_NO = ("yes", "No.", "I don't know.", "unknown")
"""Replies of a user who is to say yes, no, or "i don't know", in words of models."""


def _answer(asked: str, messages: Messages, unknown_share: float) -> str:
    query, question = field_of(asked, "clear_query"), field_of(asked, "clarification_question")
    if "i don't know" in messages[0]["content"]:
        return YES_NO[int(len(YES_NO) * chance(query, question))]
    if chance("unknown", query, question) < unknown_share:
        return "unknown"
    return query.rpartition(" ")[2][-12:]


def _rewrite(asked: str, messages: Messages, unknown_share: float) -> str:
    answers = re.findall(r"^(?:Answer|回答) \d+: (?!unknown$)(.*)$", asked, re.MULTILINE)
    return " ".join(["more about", field_of(asked, "blurred_query"), *answers])


def _clarify_turn(asked: str, messages: Messages, unknown_share: float) -> str:
    """What a scheme's prompt asks for, which its system message shows as JSON; each turn has an aspect of its own."""
    k = int(re.findall(r"^K = (\d+)", asked, re.MULTILINE)[-1])
    query, system = field_of(asked, "blurred_query"), messages[0]["content"]
    turns = len(re.findall(r"^(?:Answer|Chosen|回答|选择) \d+: ", asked, re.MULTILINE))
    aspects = ("time", "place", "kind", "price", "maker", "purpose", "colour")[turns : turns + k]
    reply: dict[str, object] = {}
    if '"reasoning":' in system:
        reply["reasoning"] = f"Nothing says which {aspects[0]} is meant."
    if '"ambiguity_types":' in system:
        reply["ambiguity_types"] = ["Specify", "Semantic"][: 1 + turns % 2]
    if '"queries":' in system:
        reply["queries"] = [f"{query} by {aspect}" for aspect in aspects]
    else:
        reply["questions"] = [f"Which {aspect} do you mean by {query}?" for aspect in aspects]
    return json.dumps(reply, ensure_ascii=False)


def _select_query(asked: str, messages: Messages, unknown_share: float) -> str:
    """The offered query with most words of the intent; of equal ones any."""
    intent = set(field_of(asked, "clear_query").casefold().split())
    offered = [line.partition(". ")[2] for line in field_of(asked, "offered_queries").splitlines()]
    best = max(offered, key=lambda query: (len(intent & set(query.casefold().split())), chance(query)))
    return json.dumps({"choice": offered.index(best) + 1})


def _reformulate(asked: str, messages: Messages, unknown_share: float) -> str:
    lines = field_of(asked, "conversation").splitlines()
    query = lines[0].partition(": ")[2]
    words = ["more about", query]
    for line in lines:
        if re.match(r"(?:Answer|回答) \d+: (?!unknown$)", line):
            words.append(line.partition(": ")[2])
    return " ".join(words)


N_ASKS = 2
"""Questions of an agent that may ask, where it does not have to ask more."""


def _query(asked: str) -> str:
    return asked.rpartition("User:")[2].strip()


_WITHOUT_TOOLS = ("You have no tools", "没有任何工具")
"""Words of the instructions of an agent that has to answer from what it knows."""


def _agent(asked: str, messages: Messages, unknown_share: float) -> str:
    if '"name": "ask", "description"' in messages[0]["content"] + asked:
        n_replies = sum("The user replies" in message["content"] for message in messages)
        # One that has to ask more before it answers asks on.
        if n_replies < N_ASKS or "Ask at least" in messages[-1]["content"]:
            call = {"name": "ask", "arguments": {"question": f"Is it number {n_replies + 1} of its kind?"}}
            return f"<think>I ask.</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
        messages = [message for message in messages if "The user replies" not in message["content"]]
        asked_only = '"name": "search", "description"' not in messages[0]["content"] + asked
        if asked_only:
            messages = [
                *messages,
                {"role": "user", "content": f"<tool_response>{_query(asked)}</tool_response>"},
            ]
    responses = [m["content"] for m in messages[2:] if "<tool_response>" in m["content"]]
    if not responses and any(words in messages[0]["content"] for words in _WITHOUT_TOOLS):
        responses = [f"I know: {_query(asked)}"]
    if responses:
        text = re.sub(r"<[^>]*>", " ", responses[-1])
        answer = " ".join(text.split())[:400]
        return f"<think>The results say it.</think>\n<answer>{answer}{_confidence(answer, messages)}</answer>"
    call = {"name": "search", "arguments": {"query": [_query(asked)]}}
    return f"<think>I search.</think>\n<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def _confidence(answer: str, messages: Messages) -> str:
    """The line that states a confidence, where the instructions ask for it; every tenth answer or so has none."""
    percent = int(100 * chance("confidence", answer))
    if "Confidence: NN" not in messages[0]["content"] or percent >= 90:
        return ""
    return f"\nConfidence: {percent}"


def _judge(asked: str, messages: Messages, unknown_share: float) -> str:
    candidate = field_of(asked, "candidate_answer")
    ids = re.findall(r"^(\S+?):", field_of(asked, "nuggets"), re.MULTILINE)
    rows = [{"id": id, "coverage": LABELS[int(3 * chance(id, candidate))]} for id in ids]
    return json.dumps({"results": rows}, ensure_ascii=False)


def _match(asked: str, messages: Messages, unknown_share: float) -> str:
    """Yes if the answer has the correct one in it, word by word."""
    is_same = field_of(asked, "correct_answer") in field_of(asked, "candidate_answer")
    return json.dumps({"same_entity": "yes" if is_same else "no"})


def _gold(asked: str, messages: Messages, unknown_share: float) -> str:
    """A nugget for each source: its first sentence. A query with "fumble" in it is answered wrongly at first.

    One with "hopeless" in it always; wrong is a source that there is not, and a weight of 5.
    """
    query = field_of(asked, "query")
    sources = [json.loads(line) for line in field_of(asked, "sources").splitlines()]
    wrong = "hopeless" in query or ("fumble" in query and len(messages) == 2)
    nuggets = []
    for n, source in enumerate(sources, 1):
        sentence = re.split(r"(?<=[.。])", source["text"].replace("\n", " "))[0]
        nugget = {
            "id": f"N{n}",
            "text": sentence or source["title"],
            "weight": 1 + n % 3,
            "source_ids": [source["id"]],
        }
        if wrong:
            nugget |= {"weight": 5, "source_ids": ["S99"]}
        nuggets.append(nugget)
    return json.dumps({"query_intent": query, "must_cover": [query], "nuggets": nuggets}, ensure_ascii=False)


_ANSWERS: Mapping[str, Callable[[str, Messages, float], str]]
_ANSWERS = {
    "clarify": _clarify,
    "answer": _answer,
    "rewrite": _rewrite,
    "agent": _agent,
    "judge": _judge,
    "match": _match,
    "gold": _gold,
    "clarify_turn": _clarify_turn,
    "respond": _answer,
    "select_query": _select_query,
    "reformulate": _reformulate,
}
ROLES = frozenset(_ANSWERS)


def say(role: str, messages: Messages, unknown_share: float) -> str:
    """A good answer of `role`; the User Answerer does not know `unknown_share` of them."""
    return _ANSWERS[role](messages[1]["content"], messages, unknown_share)


def call_of_tool(messages: Messages, tools: Sequence[str]) -> tuple[str, dict[str, str]] | None:
    """The tool that an agent calls, of those it is offered: two searches, a page, and the answer where that is a tool.

    None where it answers in text.
    """
    query = messages[1]["content"].strip().rpartition("\n")[2]
    turn = sum(message["role"] == "assistant" for message in messages)
    results = " ".join(message["content"] or "" for message in messages[2:])
    pages = re.findall(r"https?://[^\s()\"\\]+", results)
    if turn == 0:
        kind, arguments = "search", {"query": query}
    elif turn == 1:
        kind, arguments = "search", {"query": f"{query} {turn}"}
    elif turn == 2 and pages:
        kind, arguments = "visit", {"url": pages[0]}
    else:
        kind, arguments = "answer", {"answer": f"From {len(pages)} hits: {query}"}
    for tool in tools:
        if kind in tool:
            return tool, arguments
    return None
