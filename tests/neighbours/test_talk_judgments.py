"""What queries are searched in and judged by, checked before anything is paid for."""

from __future__ import annotations

from pathlib import Path

import pytest
from talk_world import write_talk_world

from cts_async.config import ConverseConfig, EvaluationConfig
from cts_async.errors import InputError, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.neighbours.at_cot.evaluation import Judgments, open_judgments
from cts_async.neighbours.at_cot.similarity import TokenF1, open_scorer
from cts_async.protocol.converse import ConversePlan, plan_conversations


def planned(folder: Path) -> ConversePlan:
    data, _ = write_talk_world(folder)
    config = ConverseConfig(models=("local",), schemes=("cot",), modes=("select",), data=str(data))
    return plan_conversations(config, load_catalogue(None), {})


def opened(folder: Path, qrels: str, **evaluation: object) -> Judgments | None:
    plan = planned(folder)
    asked = {"corpus": folder / "pages.jsonl", "qrels": qrels, **evaluation}
    return open_judgments(EvaluationConfig(**asked), plan)  # type: ignore[arg-type]


def test_the_intent_s_own_words_stand_in_for_judgments(tmp_path: Path) -> None:
    found = opened(tmp_path, "intent:1")
    assert found is not None
    assert (found.given, found.caption) == (
        None,
        "bm25 over pages.jsonl; stand-in judgments (what the intent's own text ranks best), "
        "not relevance judgments",
    )
    assert found.qrels({"1-2": "a jaguar car dealer", "9": "zebra"}) == {"1-2": {"car": 1}}
    by_default = opened(tmp_path, "intent")
    assert by_default is not None
    assert by_default.standin_depth == 10


def test_stand_ins_have_no_higher_relevance_level(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--relevance-level 2: intent:1 has grade 1 only; name a file"):
        opened(tmp_path, "intent:1", relevance_level=2)


def test_judgments_of_facets_are_read_in_both_forms(tmp_path: Path) -> None:
    (tmp_path / "diversity.qrels").write_text("1 1 animal 2\n1 2 car 1\n7 1 car 1\n")
    (tmp_path / "facets.qrels").write_text("1-1 0 animal 2\n1-2 0 car 1\n7-1 0 car 1\n")
    for name in ("diversity.qrels", "facets.qrels"):
        found = opened(tmp_path, str(tmp_path / name))
        assert found is not None
        assert found.caption == f"bm25 over pages.jsonl; 2 of 5 intents judged in {name}"
        assert found.qrels({})["1-1"] == {"animal": 2}


def test_judgments_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "topics.qrels").write_text("1 0 animal 2\n2 0 ferry 1\n")
    with pytest.raises(InputError, match=r"no judgments of any of the 5 instances: it judges '1', '2', the"):
        opened(tmp_path, str(tmp_path / "topics.qrels"))


def test_judgments_of_another_corpus_are_refused_before_anything_is_paid_for(tmp_path: Path) -> None:
    (tmp_path / "web.qrels").write_text("1 1 clueweb09-en0000 2\n1 2 clueweb09-en0001 1\n")
    told = r"web.qrels: judges no document of .*pages.jsonl: it judges 'clueweb09-en0000', there documents are called"
    with pytest.raises(InputError, match=told):
        opened(tmp_path, str(tmp_path / "web.qrels"))


@pytest.mark.parametrize("qrels", ["intent:0", "intent:", "intent:ten", "intent:²", "intent:5000"])
def test_a_depth_that_is_none_is_refused(tmp_path: Path, qrels: str) -> None:
    with pytest.raises(UsageError, match="write intent:N with N from 1 to 1000"):
        opened(tmp_path, qrels)


def test_what_cannot_be_opened_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing.qrels"):
        opened(tmp_path, str(tmp_path / "missing.qrels"))
    with pytest.raises(InputError, match="nowhere.jsonl"):
        opened(tmp_path, "intent:3", corpus=tmp_path / "nowhere.jsonl")
    with pytest.raises(UsageError, match="'nDGC@10' is no measure"):
        opened(tmp_path, "intent:3", measures=("nDGC@10",))


def test_without_documents_nothing_is_judged(tmp_path: Path) -> None:
    assert opened(tmp_path, "intent:3", corpus=None) is None


def test_words_are_compared_where_no_encoder_is_named() -> None:
    assert isinstance(open_scorer(None), TokenF1)
