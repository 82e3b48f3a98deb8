"""Similarity of questions: token F1, and BERTScore against its equations."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.errors import UsageError
from cts_async.neighbours.at_cot.generation import BertScore, TokenF1

QUESTION = st.lists(st.sampled_from(["map", "of", "the", "moon", "月亮", "a"]), max_size=6).map(" ".join)


def test_two_shared_words_of_three_and_five_by_hand() -> None:
    """{map, of, moon} and {which, map, of, the, sun} share map and of: F1 = 2 * 2 / (3 + 5)."""
    found = TokenF1().scores(["Map of moon?"], ["which map of the sun", "map of moon"])
    assert found.tolist() == [[pytest.approx(0.5), 1.0]]


def test_word_counts_as_often_as_both_have_it() -> None:
    """new x 2 and york against new x 1 and york x 1: two shared of 3 + 2."""
    assert TokenF1().scores(["new new york"], ["new york"]).tolist() == [[pytest.approx(0.8)]]


def test_matrix_has_a_row_for_each_generated_question() -> None:
    assert TokenF1().scores(["a", "b", "c"], ["a", "b"]).shape == (3, 2)
    assert TokenF1().scores([], ["a"]).shape == (0, 1)


def test_text_without_words_scores_nothing_even_against_itself() -> None:
    assert TokenF1().scores(["?"], ["?", "map"]).tolist() == [[0.0, 0.0]]


def test_token_f1_name_denies_bertscore() -> None:
    assert "not BERTScore" in TokenF1.name
    assert not TokenF1.is_bertscore


@settings(deadline=None)  # the first Chinese word loads a dictionary
@given(QUESTION, QUESTION)
def test_it_is_symmetric_within_bounds_and_one_for_the_same(a: str, b: str) -> None:
    scores = TokenF1().scores([a, b], [a, b])
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scores[0, 1] == scores[1, 0]
    assert scores[0, 0] == (1.0 if a else 0.0)


HERE = importlib.util.find_spec("bert_score") is not None
needs_package = pytest.mark.skipif(not HERE, reason="the extra [bertscore] is not installed")

WORDS = [
    "are",
    "you",
    "interested",
    "in",
    "dinosaurs",
    "do",
    "want",
    "pictures",
    "of",
    "a",
    "map",
    "the",
    "moon",
]
TEXTS = ["are you interested in dinosaurs", "do you want pictures of dinosaurs", "a map of the moon"]


@pytest.mark.skipif(HERE, reason="the extra [bertscore] is installed")
def test_missing_extra_error_gives_install_command() -> None:
    with pytest.raises(UsageError, match=r"pip install 'cts-async\[bertscore\]'"):
        BertScore("somewhere")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four layers with random weights, of the paper's architecture; its tokenizer names no greatest length."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", *WORDS])}
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
def test_matrix_is_that_of_the_equations(encoder: Path) -> None:
    scores = BertScore(str(encoder)).scores(TEXTS[:2], TEXTS)
    expected = [[by_hand(encoder, 3, a, b) for b in TEXTS] for a in TEXTS[:2]]
    assert scores.tolist() == [pytest.approx(row, abs=1e-5) for row in expected]
    assert [scores[0, 0], scores[1, 1]] == pytest.approx([1.0, 1.0], abs=1e-5)


@needs_package
def test_unknown_encoder_uses_layer_three_quarters_up(encoder: Path) -> None:
    scorer = BertScore(str(encoder))
    assert scorer.layer == 3
    assert scorer.name == "BERTScore F1 (tiny, layer 3 of 4, not rescaled)"


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
