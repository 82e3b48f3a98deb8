"""Models of transformers that score (query, document) pairs, on this machine.

Two kinds are known: sequence classification with one number (higher is better) or two (irrelevant, relevant), and
MonoT5 (Nogueira et al., 2020), a sequence-to-sequence model that is asked "Query: q Document: d Relevant:" and
answers "true" or "false". Scores of two classes are the log-probability of "relevant" against "irrelevant".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cts_async.errors import UsageError

INSTALL: Final = "pip install 'cts-async[bertscore]'"
MAX_TOKENS: Final = 512
_CHARS_PER_TOKEN: Final = 12
"""Text beyond so many characters for each token that may be read is cut off before it is taken apart."""
_CLASSIFIER: Final = "ForSequenceClassification"


def open_pair_scorer(model: str | Path) -> PairClassifier | MonoT5:
    """Load a folder, or a model of the hub by its name.

    UsageError where transformers or torch are not installed, for what cannot be loaded, and for a model without a
    head of either kind.
    """
    transformers = _transformers()
    name = str(Path(model).expanduser()) if Path(model).expanduser().exists() else str(model)
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        classifies = any(_CLASSIFIER in architecture for architecture in config.architectures or ())
        if not classifies and not config.is_encoder_decoder:
            raise _unfit(name, "it has no head that scores pairs, as cross-encoders and MonoT5 have")
        kind = "AutoModelForSequenceClassification" if classifies else "AutoModelForSeq2SeqLM"
        network = getattr(transformers, kind).from_pretrained(name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise _unfit(name, reason) from None
    return PairClassifier(name, network, tokenizer) if classifies else MonoT5(name, network, tokenizer)


class PairClassifier:
    """A sequence classifier with one or two numbers."""

    def __init__(self, name: str, network: Any, tokenizer: Any) -> None:
        """Raises UsageError for three classes or more."""
        labels = int(network.config.num_labels)
        if labels not in (1, 2):
            raise _unfit(
                name, f"it tells {labels} classes apart; one number or two (irrelevant, relevant) can rank"
            )
        self._network, self._tokenizer, self._two = _ready(network), tokenizer, labels == 2
        self._most = _room(network, tokenizer)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One number for each text, in order; of what is too long the end is not read."""
        import torch

        cut = [text[: self._most * _CHARS_PER_TOKEN] for text in texts]
        read = self._tokenizer(
            [query] * len(cut), cut, truncation=True, max_length=self._most, padding=True, return_tensors="pt"
        )
        with torch.no_grad():
            logits = self._network(**read.to(self._network.device)).logits.float()
        return _numbers(_true_of_two(logits) if self._two else logits[:, 0])


class MonoT5:
    """A sequence-to-sequence model that says "true" or "false"."""

    def __init__(self, name: str, network: Any, tokenizer: Any) -> None:
        """Raises UsageError where its vocabulary lacks one of the two words."""
        self._network, self._tokenizer = _ready(network), tokenizer
        self._words = [_word(name, tokenizer, word) for word in ("false", "true")]
        self._question = [*self._pieces("Relevant:"), tokenizer.eos_token_id]
        self._most = _room(network, tokenizer)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The log-probability of "true" for each text, in order; of what is too long the end is not read."""
        import torch

        # The question has to stand at the end, however long the document is.
        room = self._most - len(self._question)
        cut = [f"Query: {query} Document: {text[: self._most * _CHARS_PER_TOKEN]}" for text in texts]
        ids = [self._pieces(text)[:room] + self._question for text in cut]
        read = self._tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(self._network.device)
        start = int(self._network.config.decoder_start_token_id)
        first = torch.full((len(ids), 1), start, device=self._network.device)
        with torch.no_grad():
            said = self._network(
                input_ids=read["input_ids"], attention_mask=read["attention_mask"], decoder_input_ids=first
            )
        return _numbers(_true_of_two(said.logits[:, 0, self._words].float()))

    def _pieces(self, text: str) -> list[int]:
        pieces: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return pieces


def _transformers() -> Any:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise UsageError(
            f"re-ranking needs {error.name or 'transformers'}, which is not here: {INSTALL}"
        ) from None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _ready(network: Any) -> Any:
    import torch

    return network.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _room(network: Any, tokenizer: Any) -> int:
    """How many tokens query and document may have together."""
    positions = getattr(network.config, "max_position_embeddings", None) or MAX_TOKENS
    return min(MAX_TOKENS, int(positions), int(tokenizer.model_max_length))


def _word(name: str, tokenizer: Any, word: str) -> int:
    pieces = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(pieces) != 1 or pieces[0] == tokenizer.unk_token_id:
        raise _unfit(name, f"{word!r} is no word of its vocabulary, so it is no MonoT5")
    return int(pieces[0])


def _true_of_two(logits: Any) -> Any:
    return logits.log_softmax(dim=-1)[:, 1]


def _numbers(scores: Any) -> list[float]:
    return [float(score) for score in scores.cpu()]


def _unfit(name: str, reason: str) -> UsageError:
    return UsageError(f"{name}: cannot be used for re-ranking: {reason}")
