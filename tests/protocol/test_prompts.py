"""Prompts: complete, strict, fenced, short where the model is tiny."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import InputError
from cts_async.protocol.prompts import FIELDS, Prompt, load_prompts
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
    if prompt.fence is not None:
        text = rendered(prompt, **dict.fromkeys(prompt.fields, value))
        plain = rendered(prompt, **dict.fromkeys(prompt.fields, ""))
        assert len(prompt.fence.findall(text)) == len(prompt.fence.findall(plain))


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
