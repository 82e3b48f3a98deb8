"""The tools of an agent: chosen by name, described in its prompts, files of the package and plug-ins alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed_plugins import forget, install

from cts_async.errors import InputError, UsageError
from cts_async.protocol.prompts import load_prompts, open_prompts, shipped_folder
from cts_async.search.toolbox import every_tool, open_toolbox
from cts_async.search.turn_format import InvalidCall, RequestedCall

OF_0_12 = {
    "agent.en": "da1764def4f972367bd504f62953e1025ec1546cb8b569a181318014764be54b",
    "agent.native": "2cb6d00f1139b0764600ed77d38832dde6ebe64dd130b38e10ef0d5e80d44ded",
    "agent.small.en": "8a2e5c2dd3e630f42761cfa2fa673bff58ef5bd66594693468b68c7c018cc112",
    "agent.small.zh": "9d0212034c0091383b0f4397ea551cea3b4a4d17b36628e2445d078ddc3066f4",
    "agent.zh": "375f01effde2185218ba27df9fcfae9f1ab9f6e81ab4878beeaeeb5e8f7a7dcd",
}
"""The agent's prompts of version 0.12, whose runs are resumed: the usual tools stood in the files themselves."""

COUNTER = """
from cts_async.search.toolbox.search import TOOL as SEARCH

class Counter(type(SEARCH)):
    name = "counter"
    aliases = ()

TOOL = Counter()
"""


@pytest.fixture(autouse=True)
def searched_again() -> Iterator[None]:
    yield
    forget()


def test_usual_tools_leave_the_prompts_as_they_were() -> None:
    prompts = load_prompts()
    for name, sha256 in OF_0_12.items():
        assert prompts.prompts[name].sha256 == sha256
        assert hashlib.sha256(prompts.text(name).encode()).hexdigest() == sha256


def test_prompt_describes_the_chosen_tools_and_no_others() -> None:
    prompts = load_prompts(toolbox=open_toolbox(["visit"]))
    for name in OF_0_12:
        text = prompts.text(name)
        described = text.partition("<tools>\n")[2].partition("\n</tools>")[0]
        assert described.count("\n") == 0
        assert '"name": "visit"' in described
    assert prompts.prompts["judge.en"].sha256 == load_prompts().prompts["judge.en"].sha256


def test_prompt_of_the_users_with_tools_of_its_own_is_refused_for_others(tmp_path: Path) -> None:
    own = load_prompts().text("agent.en").replace("expert", "master")
    (tmp_path / "agent.en.txt").write_text(own, "utf-8")
    assert open_prompts([str(tmp_path)], {}).text("agent.en") == own
    with pytest.raises(
        InputError, match=r"agent\.en\.txt.*write \{tools\} in their place for --tools search"
    ):
        open_prompts([str(tmp_path)], {}, toolbox=open_toolbox(["search"]))
    shipped = (shipped_folder() / "agent.en.txt").read_text("utf-8")
    (tmp_path / "agent.en.txt").write_text(shipped.replace("expert", "master"), "utf-8")
    text = open_prompts([str(tmp_path)], {}, toolbox=open_toolbox(["search"])).text("agent.en")
    assert '"name": "visit", "description"' not in text


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["search", "vist"], "no tool is called 'vist'; did you mean 'visit'"),
        (["search", "search"], "search is named twice"),
        ([""], "no tool is called ''; there are .*search, visit"),
        ([], "name one tool at least"),
    ],
)
def test_wrong_names_are_refused(names: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        open_toolbox(names)


def test_call_of_a_tool_that_the_agent_lacks_is_invalid() -> None:
    call = open_toolbox(["search"]).read(RequestedCall("visit", {"url": "http://x"}, "raw"))
    assert call == InvalidCall("there is no tool 'visit'; the only tool is search", "raw")


def test_tool_of_another_package_is_one_of_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"counter": "lab_counter", "broken": "lab_broken"}
    install(
        tmp_path,
        monkeypatch,
        {"cts_async.tools": entries},
        {"lab_counter": COUNTER, "lab_broken": "TOOL = 3"},
    )
    assert open_toolbox(["search", "counter"]).names == ("search", "counter")
    with pytest.raises(UsageError, match=r"my-lab 1\.0.*is no tool"):
        open_toolbox(["broken"])
    assert {"search", "visit", "counter"} <= set(every_tool().names)
    assert "broken" not in every_tool().names
