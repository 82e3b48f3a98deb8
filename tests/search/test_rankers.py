"""Rankers: BM25, query likelihood, cross-encoders and the models that score pairs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from math import isclose, log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import UsageError
from cts_async.search import rankers
from cts_async.search.backends import Page, Ranked
from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers import (
    BATCH,
    ConversationText,
    CrossEncoderRanker,
    QueryLikelihoodRanker,
    Weights,
    open_pair_scorer,
)

TEXTS = ["the red fox", "red red wine", "a blue whale", "the red fox"]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    rows = [{"id": f"d{n}", "url": f"u{n}", "title": "", "text": text} for n, text in enumerate(TEXTS)]
    (tmp_path / "docs").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Corpus.open(tmp_path / "docs", tmp_path / "cache")


def test_bm25_score_by_hand(corpus: Corpus) -> None:
    """One of four documents has it: idf = ln(1 + 3.5 / 1.5); tf 1 in 2 words, where 2.25 is the average."""
    (found,) = corpus.rank("whales", 5)
    assert found == Ranked("d2", pytest.approx(1.2039728 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.25)), rel=1e-6))


def test_ranking_is_that_of_search_with_ties_in_file_order(corpus: Corpus) -> None:
    ranked = corpus.rank("red fox", 10)
    assert ranked == [(hit.id, hit.score) for hit in corpus.search("red fox", 10)]
    assert [found.id for found in ranked] == ["d0", "d3", "d1"]
    for query, limit in (("zebra", 5), ("", 5), ("fox", 0)):
        assert corpus.rank(query, limit) == []


def pages_of(*texts: str) -> list[Page]:
    return [Page(f"d{n}", f"u{n}", "", text) for n, text in enumerate(texts)]


THREE = ("fox fox hen", "fox dog", "hen hen hen dog cow")


def test_three_documents_by_hand() -> None:
    """mu = 10, |C| = 10, so a term that stands c times in C adds c to its numerator, over 10 + |d|.

    The query is "fox" (3 in C), the history "hen cow" (4 and 1 in C): p = 1/2, 1/4, 1/4.
    """
    ranker = QueryLikelihoodRanker(pages_of(*THREE), mu=10)
    ranked = ranker.rank_conversation(ConversationText("fox", ("hen",), ("cow",)), 5)
    assert dict(ranked) == {
        "d0": pytest.approx(log(5 / 13) / 2 + log(5 / 13) / 4 + log(1 / 13) / 4),
        "d1": pytest.approx(log(4 / 12) / 2 + log(4 / 12) / 4 + log(1 / 12) / 4),
        "d2": pytest.approx(log(3 / 15) / 2 + log(7 / 15) / 4 + log(2 / 15) / 4),
    }
    assert [found.id for found in ranked] == ["d0", "d1", "d2"]
    ranker = QueryLikelihoodRanker(pages_of(*THREE), mu=10, weights=Weights(0.5, answers=0.4))
    ranked = ranker.rank_conversation(ConversationText("fox", ("hen",), ("cow",)), 5)
    assert dict(ranked)["d1"] == pytest.approx(0.6 * log(4 / 12) + 0.4 * log(1 / 12))


def test_texts_without_known_terms_leave_their_weight_to_the_query() -> None:
    """As published, p(fox | "fox unicorn") is 1/2, and the other half of the query says nothing."""
    ranker = QueryLikelihoodRanker(pages_of(*THREE), mu=10)
    assert ranker.rank("foxes", 1) == [("d0", pytest.approx(log(5 / 13)))]
    assert ranker.rank_conversation(ConversationText("fox", ("",), ("is it",)), 3) == ranker.rank("fox", 3)
    assert ranker.rank("fox unicorn", 1) == [("d0", pytest.approx(log(5 / 13) / 2))]
    assert (ranker.rank("unicorn", 3), ranker.rank("fox", 0)) == ([], [])
    ties = QueryLikelihoodRanker(pages_of("cow", "fox", "cow", "fox")).rank("fox", 9)
    assert [found.id for found in ties] == ["d1", "d3", "d0", "d2"]


def test_stop_words_count_if_a_query_has_nothing_else() -> None:
    pages = [Page("d0", "u0", "Fox", "who is the fox"), Page("d1", "u1", "The Who", "a band")]
    ranker = QueryLikelihoodRanker(pages)
    assert ranker.rank("the who", 1)[0].id == "d1"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (Weights(), [0.5, 0.3, 0.1, 0.1]),
        (Weights(0.2), [0.2, 0.48, 0.16, 0.16]),
        (Weights(0.5, answers=0.1), [0.5, 0.3, 0.1, 0.1]),
        (Weights(0.2, answers=0.8), [0.2, 0.0, 0.0, 0.8]),
    ],
)
def test_texts_of_a_part_share_its_weight_by_their_words(weights: Weights, expected: list[float]) -> None:
    """A query of 2 words, questions of 6 and 2, an answer of 2."""
    assert weights.of_texts(2, [6, 2], [2]) == pytest.approx(expected)


def test_missing_part_leaves_its_weight_to_the_others() -> None:
    assert Weights().of_texts(2, [], []) == [1.0]
    assert Weights().of_texts(0, [3], [1]) == [0.0, 0.75, 0.25]
    assert Weights(0.2, answers=0.4).of_texts(2, [3], [0]) == pytest.approx([1 / 3, 2 / 3, 0.0])
    assert Weights(0.0).of_texts(2, [], []) == [0.0]


def test_invalid_weights_and_mu_are_refused() -> None:
    for weights in ((-0.1, None), (1.1, None), (0.6, 0.5), (float("nan"), None)):
        with pytest.raises(UsageError, match="from 0 to 1"):
            Weights(*weights)
    for mu in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="mu must be"):
            QueryLikelihoodRanker(pages_of(*THREE), mu=mu)


WORDS = st.lists(st.sampled_from(["ant", "bee", "cow", "dog", "elk", "zzz"]), max_size=6)
TEXT = WORDS.map(" ".join)
DOCUMENTS = st.lists(
    st.lists(st.sampled_from(["ant", "bee", "cow", "dog", "elk"]), min_size=1, max_size=9).map(" ".join),
    min_size=1,
    max_size=5,
)
SHARE = st.floats(0, 1)


def equation(texts: list[str], query_model: dict[str, float], mu: float) -> dict[str, float]:
    """The third line of the module's equations, word for word."""
    documents = {f"d{n}": Counter(text.split()) for n, text in enumerate(texts)}
    everywhere = sum(documents.values(), Counter())
    scores = {}
    for name, held in documents.items():
        smooth = mu / (mu + held.total())
        scores[name] = sum(
            share * log(held[t] / (mu + held.total()) + smooth * everywhere[t] / everywhere.total())
            for t, share in query_model.items()
            if everywhere[t]
        )
    return scores


def likelihoods(text: str) -> dict[str, float]:
    words = text.split()
    return {word: count / len(words) for word, count in Counter(words).items()}


@given(DOCUMENTS, WORDS.filter(bool).map(" ".join), TEXT, TEXT, SHARE, st.sampled_from([0.5, 10.0, 1500.0]))
def test_scores_follow_the_equation(texts, query, question, answer, alpha, mu) -> None:
    of_query, of_history = likelihoods(query), likelihoods(f"{question} {answer}")
    share = alpha if of_history else 1.0
    model = {
        t: share * of_query.get(t, 0) + (1 - share) * of_history.get(t, 0) for t in {*of_query, *of_history}
    }
    ranker = QueryLikelihoodRanker(pages_of(*texts), mu=mu, weights=Weights(alpha))
    ranked = ranker.rank_conversation(ConversationText(query, (question,), (answer,)), 9)
    for name, score in ranked:
        assert isclose(score, equation(texts, model, mu)[name], rel_tol=1e-9, abs_tol=1e-9)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


@given(SHARE, SHARE, *[st.lists(st.integers(0, 20), max_size=4)] * 2, st.integers(1, 20))
def test_the_weights_of_all_texts_sum_to_one(alpha, part, questions, answers, query) -> None:
    for weights in (Weights(alpha), Weights(alpha, answers=part * (1 - alpha))):
        total = sum(weights.of_texts(query, questions, answers))
        assert isclose(total, 1) or (total == 0 and weights.query == 0)


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 5))
def test_more_occurrences_raise_the_score(often, more, others) -> None:
    rest = ["cow"] * (others + more)
    fewer, many = ["ant"] * often + rest, ["ant"] * (often + more) + rest[more:]
    ranker = QueryLikelihoodRanker(pages_of(" ".join(fewer), " ".join(many), "ant"))
    scores = dict(ranker.rank("ant", 9))
    assert scores["d1"] > scores["d0"]


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 9))
def test_shorter_document_with_same_occurrences_ranks_first(often, others, longer) -> None:
    short, long = (" ".join(["ant"] * often + ["cow"] * n) for n in (others, others + longer))
    ranker = QueryLikelihoodRanker(pages_of(long, short))
    assert [found.id for found in ranker.rank("ant", 9)] == ["d1", "d0"]


class InFileOrder:
    """Finds every document."""

    name = "all"

    def __init__(self, count: int) -> None:
        self._count = count

    def rank(self, query: str, limit: int) -> list[Ranked]:
        return [Ranked(f"d{n}", -float(n)) for n in range(self._count)][:limit]


class Length:
    """Likes long texts, and remembers what it read."""

    def __init__(self) -> None:
        self.read: list[tuple[str, list[str]]] = []

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.read.append((query, list(texts)))
        return [float(len(text)) for text in texts]


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> Length:
    length = Length()
    monkeypatch.setattr(rankers, "open_pair_scorer", lambda model: length)
    return length


def corpus_of(folder: Path, texts: Sequence[str]) -> Corpus:
    rows = [{"id": f"d{n}", "url": f"u{n}", "title": "T", "text": text} for n, text in enumerate(texts)]
    (folder / "docs").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Corpus.open(folder / "docs", folder / "cache")


def test_candidates_are_ordered_by_scorer_with_ties_as_in_base(tmp_path: Path, scorer: Length) -> None:
    corpus = corpus_of(tmp_path, ["a", "abc", "ab", "xyz", "longest"])
    ranker = CrossEncoderRanker(InFileOrder(5), "some/model", corpus, 4)
    assert ranker.name == "all+model"
    assert ranker.rank("query", 9) == [("d1", 5.0), ("d3", 5.0), ("d2", 4.0), ("d0", 3.0)]
    assert ranker.rank("query", 1) == [("d1", 5.0)]
    assert scorer.read[0] == ("query", ["T abc", "T xyz", "T ab", "T a"])


def test_no_document_is_scored_without_candidates(tmp_path: Path, scorer: Length) -> None:
    corpus = corpus_of(tmp_path, ["a"])
    assert CrossEncoderRanker(InFileOrder(0), "m", corpus).rank("query", 5) == []
    assert CrossEncoderRanker(InFileOrder(1), "m", corpus).rank("query", 0) == []
    assert scorer.read == []


@pytest.mark.parametrize("count", [BATCH, BATCH + 1, 2 * BATCH + 5])
def test_documents_are_scored_in_batches_of_similar_length(
    tmp_path: Path, scorer: Length, count: int
) -> None:
    texts = ["x" * (n * 7 % count + 1) for n in range(count)]
    corpus = corpus_of(tmp_path, texts)
    ranked = CrossEncoderRanker(InFileOrder(count), "m", corpus, count).rank("query", count)
    sizes = [len(batch) for _, batch in scorer.read]
    assert max(sizes) <= BATCH
    assert (sum(sizes), len(ranked)) == (count, count)
    read = [len(text) for _, batch in scorer.read for text in batch]
    assert read == sorted(read, reverse=True)
    assert {found.id: found.score for found in ranked} == {
        f"d{n}": len(text) + 2.0 for n, text in enumerate(texts)
    }


HAS_TORCH = all(map(find_spec, ("torch", "transformers")))
needs_torch = pytest.mark.skipif(
    not HAS_TORCH, reason="torch and transformers are not installed: extra [bertscore]"
)
PAIR_SCORER_WORDS = ["red", "fox", "hen", "Query", "Document", "Relevant", ":", "true", "false"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "</s>"]


@pytest.mark.skipif(HAS_TORCH, reason="torch is here")
def test_missing_torch_error_gives_install_command() -> None:
    with pytest.raises(UsageError, match=re.escape("pip install 'cts-async[bertscore]'")):
        open_pair_scorer("model")


def save(folder: Path, network: Any, words: list[str] = PAIR_SCORER_WORDS) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(SPECIAL + words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "</s>", "cls_token": "[CLS]"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=inputs, sep_token="[SEP]", **names
    ).save_pretrained(folder)
    network.save_pretrained(folder)
    return folder


def bert(labels: int, kind: str = "BertForSequenceClassification") -> Any:
    import torch
    import transformers

    torch.manual_seed(labels)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    limits = {"vocab_size": 32, "max_position_embeddings": 16, "num_labels": labels}
    network = getattr(transformers, kind)(transformers.BertConfig(**sizes, **limits))
    with torch.no_grad():
        for values in network.parameters():
            values.normal_(0, 0.5)
    return network


def t5() -> Any:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(1)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "vocab_size": 32}
    return T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0, pad_token_id=0))


@needs_torch
@pytest.mark.parametrize("labels", [1, 2])
def test_single_logit_or_second_of_two_is_the_score(tmp_path: Path, labels: int) -> None:
    import torch

    network = bert(labels)
    scorer = open_pair_scorer(save(tmp_path, network))
    with torch.no_grad():
        read = torch.tensor([[2, 5, 3, 6, 7, 3]]), torch.tensor([[0, 0, 0, 1, 1, 1]])
        logits = network.eval()(input_ids=read[0], token_type_ids=read[1]).logits[0]
    expected = float(logits[0] if labels == 1 else logits[1] - torch.logsumexp(logits, 0))
    assert scorer.score("red", ["fox hen"]) == pytest.approx([expected], abs=1e-5)


@needs_torch
def test_mono_t5_score_is_log_probability_of_true(tmp_path: Path) -> None:
    import torch

    network = t5()
    scorer = open_pair_scorer(save(tmp_path, network))
    number = {word: n for n, word in enumerate(SPECIAL + PAIR_SCORER_WORDS)}
    prompt = ["Query", ":", "red", "Document", ":", "fox", "Relevant", ":", "</s>"]
    with torch.no_grad():
        logits = network.eval()(
            input_ids=torch.tensor([[number[word] for word in prompt]]), decoder_input_ids=torch.tensor([[0]])
        ).logits[0, 0]
    true, false = logits[number["true"]], logits[number["false"]]
    assert scorer.score("red", ["fox"]) == pytest.approx(
        [float(true - torch.logaddexp(true, false))], abs=1e-5
    )


@needs_torch
@pytest.mark.parametrize("make", [lambda: bert(1), lambda: bert(2), t5])
def test_score_does_not_depend_on_batch(tmp_path: Path, make: Any) -> None:
    scorer = open_pair_scorer(save(tmp_path, make()))
    texts = ["fox", "hen fox red hen", ""]
    alone = [score for text in texts for score in scorer.score("red", [text])]
    assert scorer.score("red", texts) == pytest.approx(alone, abs=1e-4)


@needs_torch
@pytest.mark.parametrize("make", [lambda: bert(1), t5])
def test_long_text_is_truncated(tmp_path: Path, make: Any) -> None:
    scorer = open_pair_scorer(save(tmp_path, make()))
    longer, long = scorer.score("red", ["fox " * 5000, "fox " * 900])
    assert longer == pytest.approx(long, abs=1e-4)


@needs_torch
@pytest.mark.parametrize(
    ("make", "words", "reason"),
    [
        (lambda: bert(3), PAIR_SCORER_WORDS, "3 classes"),
        (lambda: bert(1, "BertModel"), PAIR_SCORER_WORDS, "neither a cross-encoder nor MonoT5"),
        (t5, PAIR_SCORER_WORDS[:-1], "'false' is not in its vocabulary"),
    ],
)
def test_unfit_model_is_refused(tmp_path: Path, make: Any, words: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be used for re-ranking: .*{reason}"):
        open_pair_scorer(save(tmp_path, make(), words))


@needs_torch
def test_folder_without_model_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be used for re-ranking") as caught:
        open_pair_scorer(tmp_path)
    assert "\n" not in str(caught.value)
