"""BERTScore (Zhang et al., ICLR 2020) through the package bert-score: the measure of AT-CoT's tables 5 to 7.

F1 of greedily matched contextual token embeddings, without idf weights. The paper uses the encoder
microsoft/deberta-large-mnli, of whose 24 layers bert-score takes the 18th. bert-score 0.3.13 meets two things in
transformers 5 that it does not survive, and that are kept from it here: a tokenizer that names no greatest length
(the paper's encoder is one: "int too big to convert"), and text without any word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cts_async.errors import UsageError

if TYPE_CHECKING:
    from cts_async.analysis.similarity import Matrix

PAPERS_ENCODER: Final = "microsoft/deberta-large-mnli"
_INSTALL: Final = "BERTScore needs a package that is not installed: pip install 'cts-async[bertscore]'"
_SANE_LENGTH: Final = 1_000_000
_USUAL_LENGTH: Final = 512


class BertScore:
    """BERTScore F1 by one encoder: a directory with a transformers model, or a model's name on its hub.

    `layer` None is bert-score's own choice for encoders that it knows (by the last part of the path), else the layer
    three quarters up, which is where its choices lie. `rescale` subtracts its English baseline, which exists for some
    of the encoders it knows; the paper's numbers are not rescaled. The encoder is loaded at once.

    Raises UsageError where the package or the encoder is missing, and for a layer that the encoder does not have.
    """

    is_bertscore = True

    def __init__(
        self,
        encoder: str = PAPERS_ENCODER,
        layer: int | None = None,
        *,
        device: str | None = None,
        batch_size: int = 64,
        rescale: bool = False,
    ) -> None:
        _require_package()
        path = str(Path(encoder).expanduser()) if Path(encoder).expanduser().exists() else encoder
        known = _known(path)
        layers = _layers(path)
        self.layer = _chosen(layer, known, layers, encoder)
        self.name = _name(path, self.layer, layers, rescale)
        self._batch_size = batch_size
        self._scorer = _load(path, self.layer, device, _baseline(known, encoder) if rescale else None)

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Matrix:
        """F1 of every pair; each distinct text is encoded once a call. A blank text scores 0."""
        import numpy as np

        matrix = np.zeros((len(generated), len(annotated)))
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


def _known(path: str) -> str | None:
    """The name under which bert-score knows an encoder: its own, or that of the same last part."""
    from bert_score.utils import model2layers

    if path in model2layers:
        return path
    last = Path(path).name
    return next((name for name in model2layers if name.rpartition("/")[2] == last), None)


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


def _chosen(layer: int | None, known: str | None, layers: int, encoder: str) -> int:
    from bert_score.utils import model2layers

    if layer is None:
        return model2layers[known] if known else math.ceil(0.75 * layers)
    if not 1 <= layer <= layers:
        raise UsageError(f"layer {layer}: the encoder {encoder} has layers 1 to {layers}")
    return layer


def _name(path: str, layer: int, layers: int, rescale: bool) -> str:
    scale = "rescaled" if rescale else "not rescaled"
    return f"BERTScore F1 ({Path(path).name}, layer {layer} of {layers}, {scale})"


def _baseline(known: str | None, encoder: str) -> Path:
    import bert_score

    folder = Path(bert_score.__file__).parent / "rescale_baseline" / "en"
    path = folder / f"{known}.tsv"
    if known is None or not path.exists():
        raise UsageError(f"bert-score has no baseline to rescale the encoder {encoder} by")
    return path


def _load(path: str, layer: int, device: str | None, baseline: Path | None) -> Any:
    from bert_score import BERTScorer

    rescaling = {} if baseline is None else {"rescale_with_baseline": True, "baseline_path": str(baseline)}
    try:
        scorer = BERTScorer(model_type=path, num_layers=layer, device=device, lang="en", **rescaling)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unloadable(path, error) from None
    tokenizer = scorer._tokenizer
    if tokenizer.model_max_length > _SANE_LENGTH:
        room = getattr(scorer._model.config, "max_position_embeddings", 0)
        tokenizer.model_max_length = room if 0 < room < _SANE_LENGTH else _USUAL_LENGTH
    return scorer


def _unloadable(path: str, error: Exception) -> UsageError:
    said = " ".join(str(error).split())
    return UsageError(f"the encoder {path} cannot be loaded: {said[:300]}")
