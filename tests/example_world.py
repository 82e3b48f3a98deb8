"""Models that answer sensibly over the sample world: for pictures and for looking at pages, never for scores.

The Clarifiers `example-large` and `example-small` ask the questions below; the User Answerer knows the answers
of the column beside them; the agent searches the sample's documents for the query it is given, reads the best page
and answers with what stands there; the judge counts words. `example-small` asks its least useful questions first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fake_roles import chance, field_of, role_of
from played_runs import play, write_models

from cts_async.config import RunConfig
from cts_async.errors import RejectedError
from cts_async.llm.messages import Message
from cts_async.protocol.lexical import lexical_coverage

LARGE, SMALL, SUPPORT = "example-large", "example-small", "example"
N = 14
UNKNOWN = "unknown"

TALKS: Mapping[str, Sequence[tuple[str, str]]] = {
    "Brack Island ferry timetable": (
        ("Which season or days do you plan to travel?", "winter weekdays"),
        ("From which quay do you want to leave?", "North Quay"),
        ("Do you need the fares as well as the times?", "times and fares"),
    ),
    "how to enrol a child in primary school": (
        ("Is it for the start of the school year or in the middle of it?", "in the middle of the year"),
        ("In which part of town will the child go to school?", "Millwharf"),
        ("How old is the child?", UNKNOWN),
    ),
    "图书馆座位预约": (
        ("您想在什么时间使用座位？", "考试季"),
        ("您想预约哪个区域的座位？", "二楼安静区"),
        ("您需要几个人的座位？", UNKNOWN),
    ),
    "museum ticket prices": (
        ("Which museum do you mean?", "Tidewheel Museum"),
        ("Who is the ticket for?", "seniors"),
        ("For which year do you need the prices?", "2033"),
    ),
    "property tax rate": (
        ("What kind of property is it?", "holiday homes"),
        ("In which town does it stand?", "Saltmere"),
        ("Which tax year do you mean?", "2033"),
    ),
    "轮渡票价": (
        ("您乘坐哪条航线？", "云汐江夜航"),
        ("您享受哪类优惠票？", "学生票"),
        ("您还想知道班次吗？", "票价和班次"),
    ),
    "harbour pie recipe": (
        ("Do you follow a diet, such as vegetarian or without gluten?", "vegetarian"),
        ("Is there an ingredient that you leave out?", "without fish"),
        ("For how many people do you cook?", UNKNOWN),
    ),
    "垃圾分类投放时间": (
        ("您住在哪个城区？", "老城区"),
        ("您问的是哪个季节？", "冬季"),
        ("您关心哪一类垃圾？", UNKNOWN),
    ),
    "heat pump grant": (
        ("What kind of building is it for?", "an apartment block"),
        ("Who applies: an owner, a tenant or an association?", "a housing association"),
        ("In which year will it be installed?", "2033"),
    ),
    "tram fares": (
        ("Who travels: an adult, a child, a student?", "students"),
        ("At what time of the day?", "on night trams after midnight"),
        ("Single rides or a pass?", UNKNOWN),
    ),
    "小学入学需要什么材料": (
        ("孩子是本地户籍还是随迁子女？", "随迁子女"),
        ("您还想了解派位办法吗？", "怎么派位"),
        ("您在哪个区申请？", UNKNOWN),
    ),
    "market stall permit": (
        ("What do you want to sell?", "hot food"),
        ("At which market?", "Saturday Quayside Market"),
        ("For how long do you need the pitch?", UNKNOWN),
    ),
    "visiting the lantern festival": (
        ("Do you need a way without steps?", "in a wheelchair"),
        ("Which evening do you have in mind?", "Lantern Night"),
        ("How do you get there?", UNKNOWN),
    ),
    "桂花糕的做法": (
        ("您有什么饮食要求？", "低糖，适合控糖人群"),
        ("您用什么厨具？", UNKNOWN),
        ("您做几人份？", UNKNOWN),
    ),
}
THOUGHTS: Mapping[str, Sequence[str]] = {
    "en": (
        "I need pages that speak of {}. I search for just that first.",
        "The first result fits the question best. I read it before I rely on its snippet.",
        "The page answers it; I give its figures as they stand.",
    ),
    "zh": (
        "需要查找关于“{}”的网页，先直接搜索。",
        "第一条结果最符合问题，先阅读原文，不只依赖摘要。",
        "网页给出了答案，按原文数字回答。",
    ),
}
_ANSWERS = {question: answer for pairs in TALKS.values() for question, answer in pairs}


def play_examples(folder: Path) -> list[Path]:
    """Play orig, `example-large` and `example-small`, each with k = 1 and 3, into `folder`/runs, in order."""
    config = RunConfig(
        models=(LARGE, SMALL),
        ks=(1, 3),
        support=SUPPORT,
        agent=SUPPORT,
        judges=(SUPPORT,),
        limit=N,
        in_flight=1,
        runs_dir=folder / "runs",
        config_file=write_models(folder, (LARGE, SMALL, SUPPORT)),
        command=f"cts run -m {LARGE} -m {SMALL} -k 1 -k 3 --limit {N}",
    )
    return play(config, say)


def say(model: str, messages: Sequence[Message]) -> str:
    """What `model` says, by the role that its prompt gives it."""
    asked = messages[1]["content"]
    if (role := role_of(asked)) == "agent":
        return _agent(messages)
    return {"clarify": _clarify, "answer": _answer, "rewrite": _rewrite, "judge": _judge}[role](model, asked)


def _clarify(model: str, asked: str) -> str:
    k = int(re.findall(r"^K = (\d+)", asked, re.MULTILINE)[-1])
    questions = [question for question, _ in TALKS[field_of(asked, "blurred_query")]]
    return json.dumps((questions if model == LARGE else questions[::-1])[:k], ensure_ascii=False)


def _answer(model: str, asked: str) -> str:
    return _ANSWERS[field_of(asked, "clarification_question")]


def _rewrite(model: str, asked: str) -> str:
    told = re.findall(r"^(?:Answer|回答) \d+: (?!unknown$)(.*)$", asked, re.MULTILINE)
    query = field_of(asked, "blurred_query")
    return "，".join([query, *told]) if "回答" in asked else ", ".join([query, *told])


def _agent(messages: Sequence[Message]) -> str:
    """Search, read the first page, then answer with what it says; one instance's search finds a closed door."""
    query = messages[1]["content"].rpartition("User:")[2].strip()
    told = [message["content"] for message in messages[2:] if message["role"] == "user"]
    if query.startswith("tram fares, students, on night"):
        raise RejectedError("HTTP 400: the request was refused by the content filter", status=400)
    thoughts = THOUGHTS["zh" if re.search("[一-鿿]", query) else "en"]
    if not told:
        return _turn(thoughts[0].format(query), "search", {"query": [query]})
    if len(told) == 1:
        urls = re.findall(r"\]\((https?://[^\s)]+)\)", told[0])[:1]
        return _turn(thoughts[1], "visit", {"url": urls, "goal": query})
    read = re.findall(r"Evidence in page:\n(.*?)\n\nSummary:", told[-1], re.DOTALL)
    evidence = " ".join(" ".join(read).split())
    return f"<think>\n{thoughts[2]}\n</think>\n<answer>\n{evidence}\n</answer>"


def _turn(thought: str, tool: str, arguments: Mapping[str, object]) -> str:
    call = json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)
    return f"<think>\n{thought}\n</think>\n<tool_call>\n{call}\n</tool_call>"


def _judge(model: str, asked: str) -> str:
    """By words as the lexical judge, but now and then a little kinder."""
    answer = field_of(asked, "candidate_answer")
    rows = re.findall(r"^(N\d+): (.*)$", field_of(asked, "nuggets"), re.MULTILINE)
    labels = {id: lexical_coverage(text, answer)[0] for id, text in rows}
    return json.dumps(
        {"results": [{"id": id, "coverage": _kinder(label, id + answer)} for id, label in labels.items()]}
    )


def _kinder(label: str, of: str) -> str:
    return {"none": "partial", "partial": "full"}.get(label, label) if chance(of) < 0.25 else label
