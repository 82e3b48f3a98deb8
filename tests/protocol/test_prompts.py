"""Prompts: complete, strict, fenced, short where the model is tiny."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.errors import InputError, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.escaping import fence_pattern
from cts_async.protocol.plan import make_plan
from cts_async.protocol.prompts import (
    FIELDS,
    MAX_BYTES,
    Prompt,
    load_prompts,
    open_prompts,
    parse_prompt,
    read_folder,
    remarks_on,
)
from cts_async.protocol.run import open_resources
from cts_async.records import Language

LANGUAGES: tuple[Language, ...] = ("en", "zh")
PROMPTS = load_prompts()
EVERY = list(PROMPTS.prompts.values())
NAMES = list(PROMPTS.prompts)


def filled(prompt: Prompt, value: str = "VALUE") -> dict[str, str]:
    return {name: f"{value}-{name}" for name in prompt.fields}


def rendered(prompt: Prompt, **fields: object) -> str:
    return "\n".join(message["content"] for message in prompt.render(**fields))


def judge_folder(folder: Path, text: str, name: str = "judge.en.txt") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


SMALL = ("clarify", "answer", "rewrite", "agent", "judge")
"""The roles of a default run."""


@pytest.mark.parametrize("role", FIELDS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_roles_have_prompts_in_both_languages_and_those_of_a_default_run_small_ones(
    role: str, language: Language
) -> None:
    assert PROMPTS.get(role, language).name == f"{role}.{language}"
    size = ".small" if role in SMALL else ""
    assert PROMPTS.get(role, language, "small").name == f"{role}{size}.{language}"


def test_missing_language_is_an_error(tmp_path: Path) -> None:
    text = "## system\nx\n## user\n{query} {nuggets} {candidate_answer}"
    prompts = load_prompts(judge_folder(tmp_path, text))
    with pytest.raises(InputError, match=r"judge\.zh\.txt: there is no 'zh' prompt for 'judge'"):
        prompts.get("judge", "zh")
    with pytest.raises(InputError, match="there is no 'en' prompt for 'answer'"):
        prompts.get("answer", "en", "small")


@pytest.mark.parametrize("prompt", EVERY, ids=NAMES)
def test_what_is_constant_stands_in_front(prompt: Prompt) -> None:
    """Only the last part of a file varies; the agent's date is one for a whole run."""
    first = next(
        name
        for name in ("blurred_query", "clear_query", "query", "question", "goal", "conversation")
        if name in prompt.fields
    )
    assert prompt.text.index("{" + first + "}") > 0.75 * len(prompt.text) - 60


@pytest.mark.parametrize("prompt", EVERY, ids=NAMES)
def test_missing_and_unknown_fields_are_named(prompt: Prompt) -> None:
    fields = filled(prompt)
    name, _ = fields.popitem()
    with pytest.raises(ValueError, match=f"{prompt.name}: missing field {name}$"):
        prompt.render(**fields)
    with pytest.raises(ValueError, match="unknown field typo"):
        prompt.render(**filled(prompt), typo="x")


@given(st.text(st.sampled_from("<>/ ＜candidate_answerCA\u200b\n")), st.sampled_from(EVERY))
def test_no_value_can_open_or_close_a_fence(value: str, prompt: Prompt) -> None:
    if fence := fence_pattern(prompt.fence):
        text = rendered(prompt, **dict.fromkeys(prompt.fields, value))
        plain = rendered(prompt, **dict.fromkeys(prompt.fields, ""))
        assert len(fence.findall(text)) == len(fence.findall(plain))


@pytest.mark.parametrize("role", [role for role in FIELDS if role != "agent"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_untrusted_text_is_fenced_and_declared_to_be_data(role: str, language: Language) -> None:
    prompt = PROMPTS.get(role, language)
    for name in prompt.fields - {"k"}:
        assert f"<{name}>\n{{{name}}}\n</{name}>" in prompt.text
    assert ("are data" if language == "en" else "是数据") in prompt.text or "is data" in prompt.text


def tokens_at_most(text: str) -> int:
    """No fewer than SmolLM2 makes of plain English: each word, digit, mark and line break counts."""
    return len(re.findall(r"[A-Za-z]+|\d|[^\w\s]|_|\n", text))


@pytest.mark.parametrize("role", SMALL)
def test_small_prompts_fit_a_tiny_model(role: str) -> None:
    text = PROMPTS.get(role, "en", "small").text
    assert tokens_at_most(text) < (350 if role == "agent" else 200)
    assert "Example:" in text.split("## user")[0]


@pytest.mark.parametrize("prompt", [p for p in EVERY if p.name.startswith("agent")], ids=lambda p: p.name)
def test_the_agent_s_prompt_shows_every_tag_and_ends_with_the_question(prompt: Prompt) -> None:
    for tag in ("think", "tool_call", "tool_response", "answer"):
        assert f"<{tag}>" in prompt.text
        assert f"</{tag}>" in prompt.text
    system, user = prompt.render(question="Who?", current_date="2026-01-31")
    assert "Current date: 2026-01-31" in system["content"] + user["content"]
    if prompt.name == "agent.tongyi":
        assert user["content"] == "Who?"  # as its model was trained
    else:
        assert user["content"].endswith("User: Who?")


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("## system\nx\n## user\n{query} {nuggets}", "judge.en.txt", "missing field candidate_answer"),
        ("{query} {nuggets} {candidate_answer}", "judge.en.txt", "'## system' and then a '## user'"),
        (
            "## user\nx\n## system\n{query} {nuggets} {candidate_answer}",
            "judge.en.txt",
            "'## system' and then",
        ),
        ("note\n## system\nx\n## user\ny", "judge.en.txt", "'## system' and then"),
        ("## system\n## user\n", "jugde.en.txt", "with a role of clarify, answer"),
        ("## system\n## user\n", "judge.fr.txt", "with a role of clarify, answer"),
    ],
)
def test_a_file_that_is_not_understood_is_named(tmp_path: Path, text: str, name: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(name)) as caught:
        load_prompts(judge_folder(tmp_path, text, name))
    assert said in caught.value.problem


# --- Prompts of a user's


CLARIFY = "## system\nAsk {k} short questions.\n## user\n<blurred_query>{blurred_query}</blurred_query>\n"


def user_folder(folder: Path, **texts: str) -> Path:
    """A folder of prompts; `clarify_en` is clarify.en.txt."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name.replace('_', '.')}.txt").write_text(text, encoding="utf-8")
    return folder


def test_prompts_of_a_user_replace_the_shipped_ones_file_by_file(tmp_path: Path) -> None:
    whole = user_folder(tmp_path / "whole", rewrite_en=PROMPTS.text("rewrite.en") + "Be brief.\n")
    short = user_folder(tmp_path / "short", clarify_en=CLARIFY)
    opened = open_prompts([str(whole), f"short={short}"], {})
    assert opened.of("gpt").get("clarify", "en") == PROMPTS.get("clarify", "en")
    assert opened.of("gpt").get("rewrite", "en").text.endswith("Be brief.\n")
    assert opened.of("gpt@short").get("rewrite", "en") == opened.get("rewrite", "en")
    assert opened.of("gpt@short").get("clarify", "zh") == PROMPTS.get("clarify", "zh")
    ours = opened.of("gpt@short").get("clarify", "en")
    assert (ours.name, ours.variant, ours.text) == ("clarify.en@short", "short", CLARIFY)
    assert rendered(ours, k=2, blurred_query="ferry") == (
        "Ask 2 short questions.\n<blurred_query>ferry</blurred_query>"
    )
    assert opened.of("vertex:claude@2025") is opened.of("short") is opened


def test_full_prompt_of_a_user_is_the_embedded_model_s_too(tmp_path: Path) -> None:
    opened = open_prompts([str(user_folder(tmp_path / "mine", clarify_en=CLARIFY))], {})
    assert opened.get("clarify", "en", "small").text == CLARIFY
    assert opened.get("clarify", "zh", "small").name == "clarify.small.zh"
    small = CLARIFY.replace("short", "tiny")
    texts = {"clarify_en": CLARIFY, "clarify_small_en": small}
    opened = open_prompts([str(user_folder(tmp_path / "both", **texts))], {})
    assert opened.get("clarify", "en", "small").text == small


def test_unchanged_prompt_stays_the_shipped_one_whatever_its_line_ends(tmp_path: Path) -> None:
    folder = user_folder(tmp_path / "same")
    text = PROMPTS.text("judge.en")
    (folder / "judge.en.txt").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    (opened,) = open_prompts([f"same={folder}"], {}).variants.values()
    assert opened.prompts == PROMPTS.prompts
    assert opened.own == frozenset()
    (folder / "judge.en.txt").write_bytes(text.replace("\n", "\r\n", 3).encode() + b"More.\r\n")
    changed = open_prompts([f"same={folder}"], {}).of("gpt@same").get("judge", "en")
    assert changed.sha256 == hashlib.sha256((text + "More.\n").encode()).hexdigest()


def test_prompts_travel_to_workers(tmp_path: Path) -> None:
    short = user_folder(tmp_path / "short", clarify_en=CLARIFY)
    opened = pickle.loads(pickle.dumps(open_prompts([f"short={short}"], {})))
    assert opened.of("gpt@short").get("clarify", "en").text == CLARIFY


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "clarify.en.txt",
            CLARIFY.replace("{blurred", "{blured"),
            ":4: unknown field blured_query; did you mean",
        ),
        ("clarify.en.txt", CLARIFY.replace("{k}", "{ k }"), ":2: unknown field k; did you mean {k}?"),
        ("clarify.en.txt", CLARIFY + "{clear_query}", ":5: unknown field clear_query; clarify has"),
        ("clarify.en.txt", CLARIFY.replace("{k}", "two"), ": missing field k"),
        ("clarify.en.txt", CLARIFY.replace("## user", "# user"), "'## system' and then a '## user' section"),
        ("clarify.en.txt", b"## system\nx\xff", ":2: is not UTF-8 text"),
        ("clarify.en.txt", CLARIFY + "x" * MAX_BYTES, ": is longer than 128 KiB"),
        ("clarfy.en.txt", CLARIFY, "is no prompt's name; did you mean 'clarify.en.txt'?"),
        ("clarify.en.md", CLARIFY, "is no prompt's name; did you mean 'clarify.en.txt'?"),
        ("notes.md", "", ": holds no prompts"),
    ],
)
def test_mistake_in_a_user_s_folder_is_one_line(
    tmp_path: Path, name: str, text: str | bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read_folder(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_braces_and_other_files_are_left_alone(tmp_path: Path) -> None:
    text = CLARIFY.replace("questions.", 'questions, as {"questions": ["..."]}, not {so}.')
    folder = user_folder(tmp_path / "mine", clarify_en=text)
    (folder / "README.md").write_text("about them")
    (folder / ".git").mkdir()
    assert read_folder(folder).prompts["clarify.en"].text == text


@pytest.mark.parametrize("make", ["link", "pipe", "folder"])
def test_only_regular_files_of_the_folder_itself_are_read(tmp_path: Path, make: str) -> None:
    folder = user_folder(tmp_path / "mine")
    (tmp_path / "secret.txt").write_text(CLARIFY)
    path = folder / "clarify.en.txt"
    {"link": lambda: path.symlink_to("../secret.txt"), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[
        make
    ]()
    with pytest.raises(InputError, match=r"clarify\.en\.txt: cannot be read: "):
        read_folder(folder)
    (tmp_path / "reached").symlink_to("mine")  # the folder that the user names may be reached through a link
    path.rmdir() if make == "folder" else path.unlink()
    path.write_text(CLARIFY)
    assert read_folder(tmp_path / "reached").own == {"clarify.en"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a", "b"], "--prompts b: a is for all roles already; name one of them: NAME=DIR"),
        (["s=a", "s=b"], "--prompts s=b: s is given twice"),
        (["s="], "--prompts s=: write it as DIR, or as NAME=DIR"),
        ([" "], "write it as DIR, or as NAME=DIR"),
        (["nowhere"], "nowhere: no such folder: expected a folder of prompts"),
        (["a b=x"], "a b=x: no such folder"),
    ],
)
def test_option_that_names_no_folder_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_prompts(given, {})
    assert said in str(caught.value)


def test_language_that_a_folder_does_not_cover_is_said_where_it_occurs(tmp_path: Path) -> None:
    short = user_folder(tmp_path / "short", clarify_en=CLARIFY)
    opened = open_prompts([f"short={short}"], {})
    (remark,) = remarks_on(opened, ["en", "zh"])
    assert remark.startswith(f"{short}: changes the prompt 'clarify' in one language only; where ")
    assert list(remarks_on(opened, ["en"])) == []
    (short / "clarify.zh.txt").write_text(CLARIFY)
    assert list(remarks_on(open_prompts([f"short={short}"], {}))) == []


def test_fields_that_are_not_alone_between_tags_are_found() -> None:
    assert [one.name for one in EVERY if one.unfenced] == []
    text = PROMPTS.text("rewrite.en").replace("<qa_pairs>", "Pairs: <qa_pairs>x")
    assert parse_prompt(Path("rewrite.en.txt"), text.encode()).unfenced == ["qa_pairs"]


def test_model_with_other_prompts_is_opened_once(tmp_path: Path) -> None:
    """An embedded model would be served twice otherwise."""
    file = tmp_path / "cts.toml"
    file.write_text('[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "x"\n')
    short = user_folder(tmp_path / "short", clarify_en=CLARIFY)
    config = RunConfig(models=("m", "m@short"), every_role="m", prompts=(f"short={short}",))

    async def opened() -> None:
        plan = make_plan(config, load_catalogue(file), {})
        async with open_resources(plan, {}, Events()) as resources:
            assert resources.models["m@short"] is resources.models["m"]
            assert resources.role("m@short").prompts.get("clarify", "en").text == CLARIFY
            assert resources.role("m").prompts.get("clarify", "en") == PROMPTS.get("clarify", "en")

    asyncio.run(opened())
