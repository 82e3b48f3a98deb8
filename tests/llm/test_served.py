"""A dated snapshot is the model asked for; anything else under another name is another model, said once."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.engine.events import Event, Events, Notice
from cts_async.llm.model import ServedModels, is_other_model


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("gpt-5.2", "gpt-5.2"),
        ("gpt-5.2", ""),
        ("gpt-5.2", "gpt-5.2-2025-12-11"),
        ("gpt-4", "gpt-4-0613"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5@20250929"),
        ("claude-sonnet-4-5-latest", "claude-sonnet-4-5-20250929"),
        ("gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("gemini-2.5-pro", "gemini-2.5-pro-001"),
        ("gemini-2.5-pro", "gemini-2.5-pro-05-06"),
        ("openai/gpt-5.2", "gpt-5.2"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
        ("qwen-max", "qwen-max-2507"),
        ("llama3", "llama3:latest"),
    ],
)
def test_a_snapshot_is_the_model_asked_for(asked: str, served: str) -> None:
    assert not is_other_model(asked, served)


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("gpt-5.2", "gpt-4o"),
        ("gpt-5.2", "gpt-5.2-mini"),
        ("gpt-5.2", "gpt-5.2-mini-2025-12-11"),
        ("gpt-5", "gpt-5.2"),
        ("gpt-5.2-2025-12-11", "gpt-5.2-2026-01-30"),
        ("gpt-5.2-2025-12-11", "gpt-5.2"),  # not said to be the snapshot that was asked for
        ("claude-sonnet-4", "claude-sonnet-4-5"),
        ("claude-sonnet-4", "claude-sonnet-4-5-20250929"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
        ("ernie-4.5-turbo", "ernie-4.5-turbo-128k"),
        ("m", "m-4096"),
        ("m", "m-32"),
    ],
)
def test_any_other_name_is_another_model(asked: str, served: str) -> None:
    assert is_other_model(asked, served)


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,30}", fullmatch=True),
    st.dates(date(2020, 1, 1), date(2099, 12, 31)),
)
def test_every_name_is_its_own_and_any_day_s_snapshot_is_it(name: str, day: date) -> None:
    assert not is_other_model(name, name)
    assert not is_other_model(name, f"{name}-{day.isoformat()}")
    assert not is_other_model(name, f"{name}-{day:%Y%m%d}")


def test_another_model_is_told_once_for_each_pair() -> None:
    heard: list[Event] = []
    models = ServedModels(Events(heard.append))
    for served in ("gpt-4o", "gpt-5.2-2025-12-11", "gpt-4o", "gpt-\x1b[31mred"):
        models.saw("gpt-5.2", served)
    assert heard == [
        Notice("gpt-5.2 was asked for, gpt-4o answers"),
        Notice("gpt-5.2 was asked for, gpt-?[31mred answers"),
    ]
