"""Prompts from a clone of a published agent: what is taken, what is compared, and what a hostile clone can do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_clone import LATER_PROMPT, PROMPT, SEARCH_LINE, VISIT, VISIT_LINE, WEBDANCER, make_clone

from cts_async.errors import InputError
from cts_async.protocol import prompt_import
from cts_async.protocol.prompt_import import RECORD, read_clone, repository_of, sources
from cts_async.protocol.prompts import open_prompts, read_folder, remarks_on_agent
from cts_async.search.toolbox import open_toolbox

CHAT_FILE = f"{WEBDANCER}/assistant_qwq_chat.py"
EXTRACTOR = VISIT.split('"""')[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return make_clone(tmp_path / "clone")


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A table of known digests that a test writes."""
    path = tmp_path / "known.toml"
    monkeypatch.setattr(prompt_import, "_KNOWN", path)
    prompt_import._known_texts.cache_clear()
    yield path
    prompt_import._known_texts.cache_clear()


def written(clone: Path, source: str, folder: Path) -> Path:
    """Write the files of an import to a new folder."""
    folder.mkdir()
    for name, data in read_clone(source, clone).files.items():
        (folder / name).write_bytes(data)
    return folder


def test_webdancer_s_prompts_have_its_texts_and_its_tools(clone: Path, tmp_path: Path) -> None:
    prompts = read_folder(written(clone, "webdancer", tmp_path / "own"))
    system, user = prompts.prompts["agent.native"].render(question="Who?", current_date="2026-11-26")
    assert system["content"].startswith("You seek. Give up never.\n\nIt is [2026-11-26] now.\n\n# Tools\n")
    assert f"<tools>\n{SEARCH_LINE}\n{VISIT_LINE}\n</tools>" in system["content"]
    assert user["content"] == (
        'Think, call, answer:\n<tool_call>\n{"name": "a tool", "arguments": {...}}\n</tool_call>\n\nUser: Who?'
    )
    for language in ("en", "zh"):
        # One message: the demo's extractor has no system role.
        (message,) = prompts.prompts[f"visit.{language}"].render(goal="a year", page="In 1889.")
        assert message["role"] == "user"
        assert message["content"] == 'Read this:\nIn 1889.\n\nFor this: a year\n{\n  "evidence": "string"\n}'
    # The clone's code has not run.
    assert not Path("executed").exists()


@pytest.mark.parametrize("later", [False, True])
def test_tongyi_s_prompts_of_both_versions_are_the_same(clone: Path, tmp_path: Path, later: bool) -> None:
    if later:
        (clone / "inference/prompt.py").write_text(LATER_PROMPT)
    imported = read_clone("tongyi", clone)
    assert imported.left_out == ([] if later else ["PythonInterpreter"])
    prompts = read_folder(written(clone, "tongyi", tmp_path / "own"))
    system, user = prompts.prompts["agent.tongyi"].render(question="Who?", current_date="2026-11-26")
    assert system["content"] == (
        f"You research deeply.\n\n# Tools\n\n<tools>\n{SEARCH_LINE}\n{VISIT_LINE}\n</tools>\n\n"
        "Current date: 2026-11-26"
    )
    assert user["content"] == "Who?"


def test_tools_that_the_clone_does_not_have_keep_our_words(clone: Path, tmp_path: Path) -> None:
    folder = written(clone, "tongyi", tmp_path / "own")
    toolbox = open_toolbox(["visit"])
    only_visit = open_prompts([str(folder)], {}, toolbox=toolbox).prompts["agent.tongyi"]
    assert VISIT_LINE in only_visit.text
    assert SEARCH_LINE not in only_visit.text
    (folder / "tools.jsonl").write_text(VISIT_LINE)
    text = open_prompts([str(folder)], {}).prompts["agent.tongyi"].text
    assert VISIT_LINE in text
    assert "Search the web with several queries at once" in text


def test_imported_prompts_of_another_agent_are_remarked_on(clone: Path, tmp_path: Path) -> None:
    folder = written(clone, "tongyi", tmp_path / "own")
    prompts = open_prompts([str(folder)], {})
    (remark,) = remarks_on_agent(prompts, "native")
    assert remark == (
        f"{folder}: changes agent.tongyi, but the agent is given agent.native; another --agent or --agent-prompt may "
        "have been meant"
    )
    assert list(remarks_on_agent(prompts, "tongyi")) == []
    # Prompts of other roles say nothing of the agent.
    (folder / "agent.tongyi.txt").unlink()
    assert list(remarks_on_agent(open_prompts([str(folder)], {}), "native")) == []


def test_record_names_each_text_its_file_and_its_digest(clone: Path, known: Path) -> None:
    sha256 = hashlib.sha256(EXTRACTOR.encode()).hexdigest()
    known.write_text(
        f'[webdancer]\nrepository = "https://x.example"\nplaces = ["{WEBDANCER}"]\nfirst = "assistant_qwq_chat.py"\n'
        f'[webdancer.sha256]\nextractor = ["0", "{sha256}"]\n'
    )
    imported = read_clone("webdancer", clone)
    assert [text.part for text in imported.changed] == ["system", "question", "search", "visit"]
    record = json.loads(imported.files[RECORD])
    assert (record["source"], record["repository"]) == ("webdancer", "https://x.example")
    visit_file = f"{WEBDANCER}/tools/private/visit.py"
    assert record["texts"][2] == {"part": "extractor", "file": visit_file, "sha256": sha256, "known": True}
    native = imported.files["agent.native.txt"]
    assert record["files"]["agent.native.txt"] == hashlib.sha256(native).hexdigest()
    assert set(record["files"]) == {"agent.native.txt", "visit.en.txt", "visit.zh.txt", "tools.jsonl"}


def test_known_digests_are_digests_and_no_text_is_shipped() -> None:
    for source in sources():
        assert repository_of(source) == "https://github.com/Alibaba-NLP/DeepResearch"
        digests = prompt_import._known_texts(source)["sha256"]
        assert {"system", "extractor", "search", "visit"} <= digests.keys()
        for values in digests.values():
            assert values
            assert all(len(bytes.fromhex(value)) == 32 for value in values)


def test_earlier_layout_of_the_repository_is_found(clone: Path) -> None:
    (clone / "WebAgent/WebDancer").rename(clone / "WebDancer")
    assert read_clone("webdancer", clone).texts[0].file == "WebDancer/demos/assistant_qwq_chat.py"


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        (
            CHAT_FILE,
            "system_message = 1\n",
            r"chat.py:1: the text assigned to system_message .* no plain text",
        ),
        (CHAT_FILE, "x = (\n", r"chat.py:1: is no Python file: '\(' was never closed"),
        (CHAT_FILE, "x = 1\0", r"chat.py.*: is no Python file"),
        (CHAT_FILE, "x = " + "(" * 5_000, r"chat.py.*: is no Python file"),
        (CHAT_FILE, "x = " + "-" * 100_000 + "1", r"chat.py.*: is no Python file"),
        (CHAT_FILE, 'system_message = "a" + f"{one} {two}"\n', r"chat.py:1: the text .* no plain text"),
        (
            CHAT_FILE,
            'system_message = "a"\n',
            r"the text given as custom_user_prompt was looked for, and not",
        ),
        (CHAT_FILE, "#" * (256 << 10) + "\n", r"is longer than 256 KiB"),
        (
            CHAT_FILE,
            'system_message = "a"\nf(custom_user_prompt="## user\\n")\n',
            r"question text has a line that begins",
        ),
        (
            CHAT_FILE,
            'system_message = "{goal}"\nf(custom_user_prompt="b")\n',
            r"system text has \{goal\}, which",
        ),
        (
            CHAT_FILE,
            'system_message = "a"\nf(custom_user_prompt="b")\n',
            r"makes? no prompt agent.native.txt: missing",
        ),
        (
            f"{WEBDANCER}/tools/private/search.py",
            "class A: name = 'find'\n",
            r"a class with name = 'search' was looked",
        ),
        (
            f"{WEBDANCER}/tools/private/search.py",
            "class A:\n    name = 'search'\n    description = 'a'\n    parameters = make()\n",
            r"search.py:4: the parameters of search was looked for: expected a constant",
        ),
        (
            f"{WEBDANCER}/tools/private/search.py",
            "class A:\n    name = 'search'\n    description = 'a'\n    parameters = {'a': {1, 2}}\n",
            r"search.py:4: the parameters of search cannot be written as JSON",
        ),
        (
            f"{WEBDANCER}/tools/private/visit.py",
            VISIT.replace(EXTRACTOR, "{page}"),
            r"unknown field 'page'; expected \{web",
        ),
        (f"{WEBDANCER}/tools/private/visit.py", VISIT.replace(EXTRACTOR, "{goal"), r"cannot be filled in"),
        (
            f"{WEBDANCER}/tools/private/visit.py",
            VISIT.replace(EXTRACTOR, "{{goal}} {goal}"),
            r"a field of prompts here is",
        ),
    ],
)
def test_changed_or_hostile_file_is_one_error_that_names_it(
    clone: Path, file: str, text: str, problem: str
) -> None:
    (clone / file).write_text(text)
    with pytest.raises(InputError, match=problem) as error:
        read_clone("webdancer", clone)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            PROMPT.replace("<tools>", "<tool>"),
            r"SYSTEM_PROMPT has no list of tools between <tools> and </tools>",
        ),
        (
            PROMPT.replace('"properties": {"query"', '"properties": {"query'),
            r"the description of search in SYSTEM_",
        ),
        (
            PROMPT.replace('"name": "search"', '"name": "a"').replace('"name": "visit"', '"name": "b"'),
            "neither search",
        ),
        (
            LATER_PROMPT.replace("__TOOL_DEFINITIONS__", ""),
            "SYSTEM_PROMPT_TEMPLATE has no __TOOL_DEFINITIONS__",
        ),
        ("A = 1", "the text assigned to EXTRACTOR_PROMPT was looked for, and not found"),
        (
            "EXTRACTOR_PROMPT = 'a'",
            "the text assigned to SYSTEM_PROMPT or SYSTEM_PROMPT_TEMPLATE was looked for",
        ),
    ],
)
def test_changed_prompt_of_tongyi_is_one_error(clone: Path, text: str, problem: str) -> None:
    (clone / "inference/prompt.py").write_text(text)
    with pytest.raises(InputError, match=problem):
        read_clone("tongyi", clone)


def test_link_in_a_clone_is_not_followed(clone: Path, tmp_path: Path) -> None:
    chat = clone / CHAT_FILE
    chat.rename(tmp_path / "elsewhere.py")
    chat.symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(
        InputError, match=r"chat\.py: is reached through a link, which is not followed in a clone"
    ):
        read_clone("webdancer", clone)
    # Neither is one to a folder; the clone itself may be reached through one.
    (clone / "inference").rename(tmp_path / "inference")
    (clone / "inference").symlink_to(tmp_path / "inference")
    with pytest.raises(InputError, match=r"prompt\.py: is reached through a link"):
        read_clone("tongyi", clone)
    (tmp_path / "link").symlink_to(make_clone(tmp_path / "other"))
    assert read_clone("tongyi", tmp_path / "link").texts


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("[1]\n", r"tools.jsonl:1: expected a JSON object"),
        (f"\n{SEARCH_LINE}\n{SEARCH_LINE}\n", r"tools.jsonl:3: describes search twice"),
        (
            SEARCH_LINE.replace('"search"', '"serach"'),
            r"tools.jsonl:1: no tool is called 'serach'; did you mean 'search'",
        ),
    ],
)
def test_mistake_in_descriptions_of_tools_is_named(
    clone: Path, tmp_path: Path, lines: str, problem: str
) -> None:
    folder = written(clone, "webdancer", tmp_path / "own")
    (folder / "tools.jsonl").write_text(lines)
    with pytest.raises(InputError, match=problem):
        read_folder(folder)


def test_descriptions_of_tools_are_not_read_through_a_link(clone: Path, tmp_path: Path) -> None:
    folder = written(clone, "webdancer", tmp_path / "own")
    (folder / "tools.jsonl").rename(tmp_path / "lines")
    (folder / "tools.jsonl").symlink_to(tmp_path / "lines")
    with pytest.raises(InputError, match=r"tools\.jsonl: cannot be read"):
        read_folder(folder)
