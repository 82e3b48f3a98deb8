"""How alike a generated and an annotated question are: the `Scorer` that clarification generation is measured with.

AT-CoT uses BERTScore (Zhang et al., ICLR 2020), here through the package bert-score (extra `[bertscore]`): F1 of
greedily matched contextual token embeddings, without idf weights. The paper's encoder is microsoft/deberta-large-mnli,
of whose 24 layers bert-score takes the 18th. `TokenF1` needs nothing, and is another measure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from cts_async.errors import UsageError
from cts_async.search.terms import terms

if TYPE_CHECKING:
    import numpy as np

    Matrix: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Scorer(Protocol):
    """Compares every generated question with every annotated one."""

    @property
    def name(self) -> str:
        """The measure's name with its settings, for captions."""

    @property
    def is_bertscore(self) -> bool:
        """True where its numbers are comparable with AT-CoT's published ones."""

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Matrix:
        """The M x N matrix S of equation 5: S[i, j] compares generated[i] with annotated[j]; 1 is the same."""


class TokenF1:
    """The F1 of the words that two questions share, each as often as both have it (as SQuAD 1.1 compares answers).

    Words are those of `search.terms.terms`: folded, lightly stemmed, Chinese cut by jieba; function words
    count. A text without words scores 0. Not BERTScore: a paraphrase in other words scores 0 here.
    """

    name = "token F1, not BERTScore"
    is_bertscore = False

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Matrix:
        """F1 = 2 |shared| / (|generated| + |annotated|), in [0, 1]."""
        import numpy as np

        rows, columns = (
            [Counter(terms(text, keep_stops=True)) for text in side] for side in (generated, annotated)
        )
        matrix = np.zeros((len(rows), len(columns)))
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                matrix[i, j] = _f1(row, column)
        return matrix


def _f1(a: Counter[str], b: Counter[str]) -> float:
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 0.0


PAPERS_ENCODER: Final = "microsoft/deberta-large-mnli"
_INSTALL: Final = "BERTScore needs a package that is not installed: pip install 'cts-async[bertscore]'"
_SANE_LENGTH: Final = 1_000_000
_USUAL_LENGTH: Final = 512


def open_scorer(encoder: str | None) -> Scorer:
    """BERTScore by that encoder; without one, the F1 of shared words. Raises UsageError."""
    return BertScore(encoder) if encoder else TokenF1()


class BertScore:
    """BERTScore F1 by one encoder: a directory with a transformers model, or a model's name on its hub.

    The layer is bert-score's own choice for encoders that it knows (by the last part of the path), else the layer three
    quarters up, which is where its choices lie. Like the paper's numbers, scores are not rescaled by a baseline. The
    encoder is loaded at once. Raises UsageError where the package or the encoder is missing.
    """

    is_bertscore = True

    def __init__(self, encoder: str = PAPERS_ENCODER, *, batch_size: int = 64) -> None:
        _require_package()
        path = str(Path(encoder).expanduser()) if Path(encoder).expanduser().exists() else encoder
        layers = _layers(path)
        self.layer = _layer(path, layers)
        self.name = f"BERTScore F1 ({Path(path).name}, layer {self.layer} of {layers}, not rescaled)"
        self._batch_size = batch_size
        self._scorer = _load(path, self.layer)

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Matrix:
        """F1 of every pair; each distinct text is encoded once a call. A blank text scores 0."""
        import numpy as np

        matrix = np.zeros((len(generated), len(annotated)))
        # bert-score 0.3.13 fails on a text without any word.
        rows, columns = (
            [n for n, text in enumerate(side) if text.strip()] for side in (generated, annotated)
        )
        if rows and columns:
            left = [generated[i] for i in rows for _ in columns]
            right = [annotated[j] for _ in rows for j in columns]
            _, _, f1 = self._scorer.score(left, right, batch_size=self._batch_size)
            matrix[np.ix_(rows, columns)] = f1.numpy().reshape(len(rows), len(columns))
        return matrix


def _require_package() -> None:
    try:
        import bert_score  # noqa: F401
    except ImportError as error:
        raise UsageError(f"{_INSTALL} ({error})") from None


def _layers(path: str) -> int:
    """How many layers the encoder has."""
    from transformers import AutoConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return int(AutoConfig.from_pretrained(path).num_hidden_layers)
    except (OSError, ValueError, AttributeError) as error:
        raise _unloadable(path, error) from None


def _layer(path: str, layers: int) -> int:
    """The layer to take: that of a known encoder of the same name, or last part of the name, else three quarters up."""
    from bert_score.utils import model2layers

    last = Path(path).name
    known = path if path in model2layers else None
    known = known or next((name for name in model2layers if name.rpartition("/")[2] == last), None)
    layer = int(model2layers[known]) if known else math.ceil(0.75 * layers)
    if layer > layers:
        raise UsageError(f"layer {layer}: the encoder {path} has layers 1 to {layers}")
    return layer


def _load(path: str, layer: int) -> Any:
    from bert_score import BERTScorer

    try:
        scorer = BERTScorer(model_type=path, num_layers=layer, lang="en")
    except (OSError, ValueError, RuntimeError) as error:
        raise _unloadable(path, error) from None
    tokenizer = scorer._tokenizer
    # The tokenizer of the paper's encoder has no greatest length, with which bert-score 0.3.13 and transformers 5 fail
    # ("int too big to convert").
    if tokenizer.model_max_length > _SANE_LENGTH:
        room = getattr(scorer._model.config, "max_position_embeddings", 0)
        tokenizer.model_max_length = room if 0 < room < _SANE_LENGTH else _USUAL_LENGTH
    return scorer


def _unloadable(path: str, error: Exception) -> UsageError:
    reason = " ".join(str(error).split())
    return UsageError(f"the encoder {path} cannot be loaded: {reason[:300]}")
