"""The closed book as a matter of types: no view has a field that its role must not know."""

from __future__ import annotations

from dataclasses import fields

from cts_async.protocol.views import (
    AnswererView,
    ClarifierView,
    Conversation,
    Exchange,
    ExtractorView,
    JudgeView,
    ReformulatorView,
    RewriterView,
    SearchView,
    SelectorView,
    TurnView,
)
from cts_async.records import Instance


def names(view: type) -> set[str]:
    return {field.name for field in fields(view)}


def test_only_the_user_answerer_holds_the_intent_before_the_answer() -> None:
    assert names(ClarifierView) == {"blurred_query", "k"}
    assert names(AnswererView) == {"fused_query", "question", "conversation"}
    assert names(RewriterView) == {"blurred_query", "pairs"}
    assert names(SearchView) == {"query"}
    assert names(JudgeView) == {"query", "nuggets", "candidate_answer"}
    assert names(ExtractorView) == {"query", "answer", "sources"}


def test_only_the_user_holds_the_intent_in_a_conversation() -> None:
    assert names(TurnView) == {"blurred_query", "conversation", "k"}
    assert names(SelectorView) == {"fused_query", "conversation", "offered"}
    assert names(ReformulatorView) == {"conversation"}
    assert names(Conversation) == {"first_query", "exchanges"}
    assert names(Exchange) == {"offered", "reply"}


def test_no_view_carries_a_whole_instance() -> None:
    talking = (TurnView, SelectorView, ReformulatorView, Conversation, Exchange)
    for view in (ClarifierView, AnswererView, RewriterView, SearchView, JudgeView, ExtractorView, *talking):
        assert not any("Instance" in str(field.type) for field in fields(view)), view
        assert Instance.__name__ not in names(view)
