"""Clarification generation (AT-CoT, tables 5 to 7, section 7): scorers, scores and tables, by hand."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_talks import made_talk
from rich.console import Console

from cts_async.analysis.stats import paired_t_test
from cts_async.datasets.kinds import AnnotatedQuery, Annotations
from cts_async.errors import UsageError
from cts_async.neighbours.at_cot.generation import (
    BertScore,
    Best,
    Generated,
    GeneratedQuestions,
    TokenF1,
    alignment_table,
    compared_mode,
    correlation_test,
    first_questions,
    generation_tables,
    scheme_rows,
    scheme_table,
    score_queries,
    type_table,
)
from cts_async.neighbours.inputs import published
from cts_async.runs.conversations import ConversationRun, read_conversation_run
from cts_async.tables.table import DataTable, print_table


class Made:
    """Scores that were made up; counts how often each pair was asked for."""

    name = "made"
    is_bertscore = False

    def __init__(self, scores: Mapping[tuple[str, str], float]) -> None:
        self._scores = scores
        self.asked: list[tuple[str, str]] = []

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Any:
        import numpy as np

        self.asked += [(a, b) for a in generated for b in annotated]
        return np.array([[self._scores.get((a, b), 0.0) for b in annotated] for a in generated])


def of(**schemes: Mapping[str, Sequence[str]]) -> GeneratedQuestions:
    """`of(cot={"q": ["a", "b"]})`."""
    return {
        scheme.replace("_", "-"): {query: Generated(tuple(questions)) for query, questions in queries.items()}
        for scheme, queries in schemes.items()
    }


MATRIX = {("g1", "a1"): 0.2, ("g1", "a2"): 0.7, ("g2", "a1"): 0.9, ("g2", "a2"): 0.1}


def test_query_scores_the_greatest_of_its_matrix_and_schemes_share_comparisons() -> None:
    made = Made(MATRIX)
    found = score_queries(of(standard={"q": ["g1"]}, cot={"q": ["g1", "g2"]}), {"q": ["a1", "a2"]}, made)
    best = {scheme: (one["q"].points, one["q"].question, one["q"].annotated) for scheme, one in found.items()}
    assert best == {
        "standard": (pytest.approx(70.0), "g1", "a2"),
        "cot": (pytest.approx(90.0), "g2", "a1"),
    }
    assert sorted(made.asked) == sorted(MATRIX)


def test_queries_without_annotation_or_question_are_left_out_and_counted() -> None:
    generated = of(cot={"q": ["g1"], "nobody wrote": ["g1"], "nothing asked": [" "]})
    scores = score_queries(
        generated, {"q": ["a2"], "nothing asked": ["a1"], "nobody wrote": []}, Made(MATRIX)
    )
    (row,) = scheme_rows(scores, generated)
    assert (row["n"], row["left_out"], row["mean"]) == (1, 2, pytest.approx(70.0))
    (row,) = scheme_rows({"cot": {}}, generated)
    assert (row["n"], row["left_out"], row["mean"]) == (0, 3, None)


QUERIES = "abcd"
STANDARD, AT_COT = [50, 52, 54, 56], [60, 61, 64, 67]
"""Differences 10, 9, 10, 11: mean 10, variance 2/3, t = 10 / sqrt(2/3/4) = 24.495 with 3 degrees of freedom."""


def two_schemes() -> tuple[GeneratedQuestions, Any]:
    generated = of(
        standard={query: [f"s{query}"] for query in QUERIES},
        at_cot={query: [f"t{query}"] for query in QUERIES},
    )
    made = {(f"s{query}", "x"): points / 100 for query, points in zip(QUERIES, STANDARD, strict=True)}
    made |= {(f"t{query}", "x"): points / 100 for query, points in zip(QUERIES, AT_COT, strict=True)}
    return generated, score_queries(generated, {query: ["x"] for query in QUERIES}, Made(made))


def test_table_5_by_hand() -> None:
    generated, scores = two_schemes()
    standard, at_cot = scheme_rows(scores, generated)
    assert (standard["mean"], at_cot["mean"]) == (pytest.approx(53.0), pytest.approx(63.0))
    assert (at_cot["over_standard_n"], at_cot["over_standard"]) == (4, pytest.approx(10.0))
    assert at_cot["over_standard_p"] == pytest.approx(paired_t_test(AT_COT, STANDARD).p)
    assert (standard["marks"], at_cot["marks"], at_cot["over_cot_n"]) == ("", "*", None)
    # A significant loss is no improvement, and pairs are of the queries that both have.
    cot, _ = scheme_rows({"cot": scores["standard"], "standard": scores["at-cot"]}, generated)
    assert cot["over_standard_p"] < 0.01
    assert cot["marks"] == ""
    _, at_cot = scheme_rows(
        {"standard": {"a": scores["standard"]["a"]}, "at-cot": scores["at-cot"]}, generated
    )
    assert (at_cot["n"], at_cot["over_standard_n"]) == (4, 1)


def test_table_6_takes_the_queries_of_each_level() -> None:
    generated, scores = two_schemes()
    rows = scheme_table(scores, generated, TokenF1(), levels={"a": 4, "b": 1, "c": 4, "elsewhere": 2}).rows
    assert [(row["level"], row["n"], row["left_out"]) for row in rows] == [(1, 1, 0)] * 2 + [(4, 2, 0)] * 2
    assert [row["mean"] for row in rows[2:]] == [pytest.approx(52.0), pytest.approx(62.0)]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5), st.randoms())
def test_order_of_questions_changes_no_score(points: list[int], random: Any) -> None:
    questions = [f"g{n}" for n in range(len(points))]
    made = Made({(question, "x"): one / 100 for question, one in zip(questions, points, strict=True)})
    random.shuffle(questions)
    found = score_queries(of(cot={"q": questions}), {"q": ["x"]}, made)
    assert found["cot"]["q"].points == pytest.approx(max(points))


def best(**points: float) -> dict[str, Best]:
    return {query: Best(one, "g", "a") for query, one in points.items()}


PREDICTED = {
    "a": Generated(("g",), ("semantic", "specify")),
    "b": Generated(("g",), ("specify",)),
    "c": Generated(("g",), ("specify", "specify")),
    "d": Generated(("g",)),
}


def test_shares_are_of_all_predictions_and_gains_over_queries_with_both_scores() -> None:
    """Four predictions over three queries: semantic 1, specify 3; a type named twice counts once.

    specify: a +4, b -1 (c has no CoT score): mean 1.5; semantic: a alone.
    """
    scores = {"at-cot": best(a=80, b=70, c=90, d=0), "cot": best(a=76, b=71, d=50)}
    rows = type_table(scores, {"at-cot": PREDICTED}, TokenF1()).rows
    assert [(row["predicted"], row["share"]) for row in rows] == [(1, 25.0), (0, 0.0), (3, 75.0)]
    assert [(row["gain_queries"], row["gain"]) for row in rows] == [
        (1, pytest.approx(4.0)),
        (0, None),
        (2, pytest.approx(1.5)),
    ]
    assert type_table(scores, {"at-cot": {"d": PREDICTED["d"]}}, TokenF1()).rows == []


@pytest.mark.parametrize(
    ("x", "y", "r", "p"),
    [
        # Table 5 (Qulac) and table 8 (TREC 09-12, respond, turn 1); printed are r = 0.92 and p = 0.08.
        ([77.9, 77.0, 79.2, 80.6], [0.232, 0.230, 0.238, 0.244], 0.994, 0.006),
        # With n = 4 the t distribution has 2 degrees of freedom, where p = 1 - |r|: 0.92 goes with 0.08.
        ([0, 1, 2, 3], [0, 3, 1, 2], 0.4, 0.6),
        ([1, 2], [5, 3], -1.0, 1.0),
        ([1, 1, 1], [1, 2, 3], None, None),
        ([1], [1], None, None),
        ([1, 2, 3], [2, 4, 6], 1.0, 0.0),
    ],
)
def test_pearson_by_hand(x: list[float], y: list[float], r: float | None, p: float | None) -> None:
    found = correlation_test(x, y)
    assert found["n"] == len(x)
    assert (found["r"], found["p"]) == (pytest.approx(r, abs=5e-4), pytest.approx(p, abs=5e-4))


def test_schemes_and_queries_are_aligned_by_hand() -> None:
    """cot retrieves (0.1 + 0.3 + 0.5) / 3 over its intents; over queries it has (60, 0.2) and (80, 0.5)."""
    scores = {"standard": best(a=50, b=60), "cot": best(a=60, b=80), "at-cot": best(a=90)}
    retrieval = {"standard": {"a": [0.2], "b": [0.2]}, "cot": {"a": [0.1, 0.3], "b": [0.5], "c": []}}
    standard, cot, over = alignment_table(scores, retrieval, TokenF1()).rows
    assert (standard["scheme"], standard["generation"], standard["retrieval"]) == ("standard", 55.0, 0.2)
    assert (cot["scheme"], cot["generation"], cot["retrieval"]) == ("cot", 70.0, pytest.approx(0.3))
    assert (over["scheme"], over["n"], over["r"], over["p"]) == ("over schemes", 2, 1.0, 1.0)
    assert (standard["r"], cot["r"]) == (None, pytest.approx(1.0))


BLURRED = {"1-1": "jaguar", "1-2": "jaguar", "2-1": "ferry"}


def talk(folder: Path, scheme: str, mode: str, asked: dict[str, list[str]]) -> ConversationRun:
    rows = {
        id: [
            {"offered": [question], "types": ["specify"], "query": f"{BLURRED[id]} {n}"}
            for n, question in enumerate(questions)
        ]
        for id, questions in asked.items()
    }
    return read_conversation_run(made_talk(folder, scheme=scheme, mode=mode, rows=rows, queries=BLURRED))


def test_first_questions_of_a_query_are_compared(tmp_path: Path) -> None:
    """The first intent that has a conversation counts; questions asked at once go before those of respond."""
    which, when = Generated(("Which?",), ("specify",)), Generated(("When?",), ("specify",))
    respond = talk(tmp_path, "cot", "respond", {"2-1": ["When?"], "1-2": ["Which?", "Why?"]})
    assert first_questions([respond], BLURRED) == {"cot": {"jaguar": which, "ferry": when}}
    assert first_questions([respond], {"1-2": "jaguar"}) == {"cot": {"jaguar": which}}
    at_once = talk(tmp_path, "standard", "at-once", {"1-1": ["Which?"]})
    select = talk(tmp_path, "at-cot", "select", {"1-1": ["jaguar cat"]})
    assert compared_mode([respond, at_once, select]) == "at-once"
    assert first_questions([respond, at_once, select], BLURRED) == {"standard": {"jaguar": which}}
    assert compared_mode([respond, select]) == "respond"
    # Offered queries are no questions.
    assert (compared_mode([select]), first_questions([select], BLURRED)) == (None, {})


# --- Tables in print -------------------------------------------------------------------------------------


class Lengths:
    """A made scorer: the number of letters of the generated question, in hundredths."""

    name = "BERTScore F1 (made)"
    is_bertscore = True

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Any:
        import numpy as np

        return np.array([[len(a) / 100] * len(annotated) for a in generated])


POINTS = {"standard": (50, 52, 54, 56), "cot": (50, 53, 54, 57), "at-cot": (60, 61, 64, 67)}


def made_questions(points: Mapping[str, Sequence[int]] = POINTS) -> GeneratedQuestions:
    types = {"at-cot": ("semantic", "specify")}
    return {
        scheme: {
            query: Generated(("x" * n,), types.get(scheme, ()))  # type: ignore[arg-type]
            for query, n in zip(QUERIES, of, strict=True)
        }
        for scheme, of in points.items()
    }


def tables_of(
    questions: GeneratedQuestions | None = None,
    *retrieval: Any,
    levels: Mapping[str, int] | None = None,
    scorer: Any = None,
    dataset: str = "",
) -> dict[str, DataTable]:
    people = Annotations({q: AnnotatedQuery(q, q, ("y",), (levels or {}).get(q)) for q in QUERIES}, {})
    questions = questions or made_questions()
    tables = generation_tables(questions, people, scorer or Lengths(), *retrieval, dataset=dataset)
    return {table.name: table for table in tables}


def printed(table: DataTable, width: int = 80) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width, color_system=None), table)
    return out.getvalue()


def test_tables_of_qulac_show_published_values() -> None:
    retrieval = {
        "standard": {"a": [0.1], "b": [0.2]},
        "cot": {"a": [0.3, 0.1], "b": [0.3]},
        "at-cot": {"a": [0.4]},
    }
    tables = tables_of(None, retrieval, dataset="qulac")
    assert "generation_by_level" not in tables  # without levels
    at_cot = tables["generation"].rows[2]
    assert (at_cot["scheme"], at_cot["mean"], at_cot["marks"]) == ("at-cot", pytest.approx(63.0), "*Δ")
    assert (at_cot["published"], at_cot["over_standard"]) == (80.6, pytest.approx(10.0))
    assert at_cot["over_standard_p"] < at_cot["over_standard_p_holm"] < 0.01
    assert "63.0 *Δ" in printed(tables["generation"])
    assert "† at-standard" not in printed(tables["generation"])
    semantic, generalize, _ = tables["ambiguity_types"].rows
    assert (semantic["share"], semantic["gain"], semantic["gain_queries"]) == (50.0, pytest.approx(9.5), 4)
    assert (semantic["published_share"], semantic["published_gain"]) == (44.6, 1.3)
    assert (generalize["share"], generalize["gain"]) == (0.0, None)
    over, caption = tables["generation_and_retrieval"].rows[-1], tables["generation_and_retrieval"].caption
    assert (over["scheme"], over["n"]) == ("over schemes", 3)
    assert over["r"] == pytest.approx(correlation_test([53.0, 53.5, 63.0], [0.15, 0.7 / 3, 0.4])["r"])
    assert "r = 0.92, p = 0.08" in caption
    means, turns = (
        published("at_cot")["table_5"]["qulac"],
        published("at_cot")["table_8"]["web-track-2009-2012"],
    )
    found = correlation_test(list(means.values()), [turns[scheme][0][1] for scheme in means])
    assert f"r = {found['r']:.3f}, p = {found['p']:.3f}" in caption
    queries = tables["generation_by_query"]
    assert (len(queries.rows), printed(queries)) == (12, "")
    assert [*queries.rows[0].values()] == ["standard", "a", 50.0, "x" * 50, "y"]


def test_raocq_has_its_published_columns() -> None:
    tables = tables_of(dataset="raocq")
    assert tables["generation"].rows[2]["published"] == 62.4
    assert tables["ambiguity_types"].rows[1]["published_share"] == 12.3
    assert (
        "r = 0.92"
        not in tables_of(None, {"cot": {"a": [0.5]}}, dataset="raocq")["generation_and_retrieval"].caption
    )


def test_baseline_that_asked_nothing_is_no_test_of_the_family() -> None:
    """Holm's correction over one test leaves its p as it is."""
    asked = {**made_questions(), "cot": dict.fromkeys(QUERIES, Generated(()))}
    at_cot = tables_of(asked)["generation"].rows[2]
    assert (at_cot["over_cot_n"], at_cot["over_cot_p"], at_cot["over_cot_p_holm"]) == (0, None, None)
    assert at_cot["over_standard_p_holm"] == at_cot["over_standard_p"]


def test_token_f1_is_named_in_every_table() -> None:
    tables = tables_of(None, {"cot": {"a": [0.5]}}, levels={"a": 1}, scorer=TokenF1(), dataset="qulac")
    assert len(tables) == 5
    assert all("token F1, not BERTScore" in table.caption for table in tables.values())
    assert not any("published" in key for table in tables.values() for row in table.rows for key in row)


def test_table_6_shows_published_clariq_values_in_80_columns() -> None:
    tables = tables_of(levels={"a": 1, "b": 4, "c": 4}, dataset="clariq")
    rows = tables["generation_by_level"].rows
    assert [(row["level"], row["scheme"], row["n"], row["published"]) for row in rows] == [
        (1, "standard", 1, 78.7),
        (1, "cot", 1, 78.6),
        (1, "at-cot", 1, 80.9),
        (4, "standard", 2, 78.5),
        (4, "cot", 2, 78.0),
        (4, "at-cot", 2, 82.4),
    ]
    points = {**POINTS, "at-standard": POINTS["standard"]}
    retrieval = {scheme: {"a": [0.1], "b": [0.3]} for scheme in points}
    levels = dict.fromkeys(QUERIES, 2)
    texts = [
        *map(printed, tables_of(made_questions(points), retrieval, levels=levels, dataset="clariq").values())
    ]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80
    assert "…" not in "".join(texts)


# --- Scorers ---------------------------------------------------------------------------------------------

QUESTION = st.lists(st.sampled_from(["map", "of", "the", "moon", "月亮", "a"]), max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("generated", "annotated", "f1"),
    [
        # {map, of, moon} and {which, map, of, the, sun} share map and of: F1 = 2 * 2 / (3 + 5).
        ("Map of moon?", ["which map of the sun", "map of moon"], [0.5, 1.0]),
        # A word counts as often as both have it: new x 2 and york against one of each share two of 3 + 2.
        ("new new york", ["new york"], [0.8]),
        # A text without words is like nothing, not even itself.
        ("?", ["?", "map"], [0.0, 0.0]),
    ],
)
def test_token_f1_by_hand(generated: str, annotated: list[str], f1: list[float]) -> None:
    assert TokenF1().scores([generated], annotated).tolist() == [pytest.approx(f1)]


@settings(deadline=None)  # the first Chinese word loads a dictionary
@given(QUESTION, QUESTION)
def test_it_is_symmetric_within_bounds_and_one_for_the_same(a: str, b: str) -> None:
    scores = TokenF1().scores([a, b], [a, b])
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scores[0, 1] == scores[1, 0]
    assert scores[0, 0] == (1.0 if a else 0.0)


HERE = importlib.util.find_spec("bert_score") is not None
needs_package = pytest.mark.skipif(not HERE, reason="the extra [bertscore] is not installed")

TEXTS = ["are you interested in dinosaurs", "do you want pictures of dinosaurs", "a map of the moon"]


@pytest.mark.skipif(HERE, reason="the extra [bertscore] is installed")
def test_missing_extra_error_gives_install_command() -> None:
    with pytest.raises(UsageError, match=re.escape("pip install 'cts-async[bertscore]'")):
        BertScore("somewhere")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four layers with random weights, of the paper's architecture; its tokenizer names no greatest length."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    known = dict.fromkeys(" ".join(TEXTS).split())
    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", *known])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    folder = tmp_path_factory.mktemp("encoders") / "tiny"
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.DebertaConfig(
        vocab_size=len(vocabulary), relative_attention=True, pos_att_type=["c2p", "p2c"], **sizes
    )
    transformers.DebertaModel(config).save_pretrained(folder)
    return folder


def by_hand(encoder: Path, layer: int, a: str, b: str) -> float:
    """F = 2PR / (P + R), P the mean over a's words of the greatest cosine with a word of b, R the other way."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    model = transformers.AutoModel.from_pretrained(encoder).eval()

    def embedded(text: str) -> Any:
        with torch.no_grad():
            ids = torch.tensor([tokenizer.encode(text)])
            hidden = model(ids, output_hidden_states=True).hidden_states[layer][0]
        return hidden / hidden.norm(dim=-1, keepdim=True)

    # [CLS] and [SEP] may be matched, but have no weight of their own.
    cosines = embedded(a) @ embedded(b).T
    precision, recall = cosines.max(dim=1)[0][1:-1].mean(), cosines.max(dim=0)[0][1:-1].mean()
    return float(2 * precision * recall / (precision + recall))


@needs_package
def test_matrix_is_that_of_the_equations_three_quarters_up_in_an_unknown_encoder(encoder: Path) -> None:
    scorer = BertScore(str(encoder))
    assert scorer.layer == 3
    assert scorer.name == "BERTScore F1 (tiny, layer 3 of 4, not rescaled)"
    scores = scorer.scores(TEXTS[:2], TEXTS)
    expected = [[by_hand(encoder, 3, a, b) for b in TEXTS] for a in TEXTS[:2]]
    assert scores.tolist() == [pytest.approx(row, abs=1e-5) for row in expected]
    assert [scores[0, 0], scores[1, 1]] == pytest.approx([1.0, 1.0], abs=1e-5)


@needs_package
def test_blank_text_scores_nothing_and_long_text_is_cut(encoder: Path) -> None:
    scores = BertScore(str(encoder)).scores(["", TEXTS[0], "moon " * 2000], [TEXTS[0], " "])
    assert scores[0].tolist() == [0.0, 0.0]
    assert scores[:, 1].tolist() == [0.0, 0.0, 0.0]
    assert scores[1, 0] == pytest.approx(1.0, abs=1e-5)


@needs_package
def test_encoder_that_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be loaded"):
        BertScore(str(tmp_path))
