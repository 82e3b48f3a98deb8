"""Small models made on the spot, of both kinds that score pairs; without torch there is only the refusal."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cts_async.errors import UsageError
from cts_async.search.rankers import open_pair_scorer

HAS_TORCH = all(map(find_spec, ("torch", "transformers")))
needs_torch = pytest.mark.skipif(
    not HAS_TORCH, reason="torch and transformers are not installed: extra [bertscore]"
)
WORDS = ["red", "fox", "hen", "Query", "Document", "Relevant", ":", "true", "false"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "</s>"]


@pytest.mark.skipif(HAS_TORCH, reason="torch is here")
def test_without_torch_it_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install 'cts-async\[bertscore\]'"):
        open_pair_scorer("model")


def save(folder: Path, network: Any, words: list[str] = WORDS) -> Path:
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
def test_one_number_is_the_score(tmp_path: Path) -> None:
    import torch

    network = bert(1)
    scorer = open_pair_scorer(save(tmp_path, network))
    with torch.no_grad():
        read = torch.tensor([[2, 5, 3, 6, 7, 3]]), torch.tensor([[0, 0, 0, 1, 1, 1]])
        logit = float(network.eval()(input_ids=read[0], token_type_ids=read[1]).logits[0, 0])
    assert scorer.score("red", ["fox hen"]) == pytest.approx([logit], abs=1e-5)


@needs_torch
def test_of_two_numbers_the_second_is_relevant(tmp_path: Path) -> None:
    import torch

    network = bert(2)
    scorer = open_pair_scorer(save(tmp_path, network))
    with torch.no_grad():
        read = torch.tensor([[2, 5, 3, 6, 3]]), torch.tensor([[0, 0, 0, 1, 1]])
        logits = network.eval()(input_ids=read[0], token_type_ids=read[1]).logits[0]
    expected = float(logits[1] - torch.logsumexp(logits, 0))
    assert scorer.score("red", ["fox"]) == pytest.approx([expected], abs=1e-5)


@needs_torch
def test_mono_t5_is_asked_whether_true_or_false_comes_first(tmp_path: Path) -> None:
    import torch

    network = t5()
    scorer = open_pair_scorer(save(tmp_path, network))
    number = {word: n for n, word in enumerate(SPECIAL + WORDS)}
    prompt = ["Query", ":", "red", "Document", ":", "fox", "Relevant", ":", "</s>"]
    with torch.no_grad():
        said = network.eval()(
            input_ids=torch.tensor([[number[word] for word in prompt]]), decoder_input_ids=torch.tensor([[0]])
        ).logits[0, 0]
    true, false = said[number["true"]], said[number["false"]]
    assert scorer.score("red", ["fox"]) == pytest.approx(
        [float(true - torch.logaddexp(true, false))], abs=1e-5
    )


@needs_torch
@pytest.mark.parametrize("make", [lambda: bert(1), lambda: bert(2), t5])
def test_a_text_scores_alike_alone_and_beside_a_longer_one(tmp_path: Path, make: Any) -> None:
    scorer = open_pair_scorer(save(tmp_path, make()))
    texts = ["fox", "hen fox red hen", ""]
    alone = [score for text in texts for score in scorer.score("red", [text])]
    assert scorer.score("red", texts) == pytest.approx(alone, abs=1e-4)


@needs_torch
@pytest.mark.parametrize("make", [lambda: bert(1), t5])
def test_what_is_too_long_is_cut(tmp_path: Path, make: Any) -> None:
    scorer = open_pair_scorer(save(tmp_path, make()))
    longer, long = scorer.score("red", ["fox " * 5000, "fox " * 900])
    assert longer == pytest.approx(long, abs=1e-4)


@needs_torch
@pytest.mark.parametrize(
    ("make", "words", "reason"),
    [
        (lambda: bert(3), WORDS, "3 classes"),
        (lambda: bert(1, "BertModel"), WORDS, "no head that scores pairs"),
        (t5, WORDS[:-1], "'false' is no word"),
    ],
)
def test_another_model_is_refused(tmp_path: Path, make: Any, words: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be used for re-ranking: .*{reason}"):
        open_pair_scorer(save(tmp_path, make(), words))


@needs_torch
def test_a_folder_without_a_model_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be used for re-ranking") as caught:
        open_pair_scorer(tmp_path)
    assert "\n" not in str(caught.value)
