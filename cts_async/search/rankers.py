"""Rankers of whole documents for a query or a conversation, for evaluation against relevance judgements.

- `Corpus` itself: BM25 by Lucene's formula with k1 = 1.2, b = 0.75, as the agent's own search ranks. (AT-CoT, SIGIR
  2025, section 4.4, uses the same formula at pyserini's k1 = 0.9, b = 0.4.)
- `QueryLikelihoodRanker`: Dirichlet smoothing, with the conversation weighted against the query (Qulac's model).
- `CrossEncoderRanker`: re-ranks another ranker's best documents with a transformers model that reads query and document
  together. AT-CoT re-ranks 100 documents of BM25 with MonoT5.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from cts_async.errors import UsageError, install_command
from cts_async.search.backends import Page, Ranked
from cts_async.search.backends.corpus import Corpus, best_rows
from cts_async.search.terms import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Ranker(Protocol):
    """Ranks the documents of one corpus. Deterministic; ties are broken by the corpus's order."""

    @property
    def name(self) -> str:
        """Its name in tables and run files."""

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """Return at most `limit` documents, best first; [] if the query matches nothing."""


# --- Query likelihood


# As published for Qulac (Aliannejadi et al., SIGIR 2019).
MU: Final = 1500.0
ALPHA: Final = 0.5
_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Memory of the cached columns."""


# Shares such as 0.7 and 0.3 may sum to a little more than 1 in floating point.
_MOST_WEIGHT: Final = 1 + 1e-9


class ConversationText(NamedTuple):
    """A query with the questions and answers about it; their order does not matter."""

    query: str
    questions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """The shares of the query and of the answers in the query model; the questions have the rest.

    `answers` None is as published: questions and answers are one text, so each weighs by its number of terms.
    Raises UsageError for weights below 0 or that sum to more than 1.
    """

    query: float = ALPHA
    answers: float | None = None

    def __post_init__(self) -> None:
        weights = (self.query, self.answers or 0.0)
        if not all(0 <= weight <= 1 for weight in weights) or sum(weights) > _MOST_WEIGHT:
            raise UsageError(
                f"the weights of query and answers must be from 0 to 1 and sum to at most 1, but are {weights}"
            )

    def of_texts(self, query: int, questions: Sequence[int], answers: Sequence[int]) -> list[float]:
        """Return the weight of each text, from its length in terms: query, then questions, then answers.

        They sum to 1. Texts of one part share its weight by their lengths; the weight of a part without terms goes
        to the others in proportion, so a query alone weighs 1. All are 0 if no part with a weight has a term.
        """
        remaining = max(0.0, 1 - self.query)
        parts: list[tuple[float, list[int]]] = [(self.query, [query])]
        if self.answers is None:
            parts.append((remaining, list(questions) + list(answers)))
        else:
            parts.append((max(0.0, remaining - self.answers), list(questions)))
            parts.append((self.answers, list(answers)))
        total = sum(weight for weight, lengths in parts if any(lengths))
        weights: list[float] = []
        for weight, lengths in parts:
            for n_terms in lengths:
                if n_terms and total:
                    weights.append(weight / total * n_terms / sum(lengths))
                else:
                    weights.append(0.0)
        return weights


class _Column(NamedTuple):
    """The number of terms in a text, and its score for every document; None if no term is in the collection."""

    words: int
    scores: NDArray[np.float64] | None


class QueryLikelihoodRanker:
    """Query likelihood with Dirichlet smoothing (Aliannejadi et al., SIGIR 2019). Not thread-safe.

    With c(t, x) the count of term t in x, |x| the number of terms in x, C the collection and d a document, the score
    is the expectation under the query model of the document's smoothed language model:

        p(t | x)   = c(t, x) / |x|
        p(t | m)   = alpha * p(t | query) + (1 - alpha) * p(t | questions and answers)
        score(d)   = sum_t p(t | m) * log( c(t, d) / (mu + |d|) + mu / (mu + |d|) * c(t, C) / |C| )

    over the terms that occur in C; alpha = 0.5, mu = 1500. A score is a weighted sum of one column for each text of
    the conversation, because sum_t p(t | x) log(...) is

        sum_t p(t | x) * log(mu * c(t, C) / |C|)  -  sum_t p(t | x) * log(mu + |d|)
        + sum_{t in d} p(t | x) * log(1 + c(t, d) * |C| / (mu * c(t, C)))

    where only the last sum needs postings. Columns are cached: the many conversations made of the same questions and
    answers cost a few additions each, and every document is ranked exactly.
    """

    name = "ql"

    def __init__(self, documents: Iterable[Page], *, mu: float = MU, weights: Weights | None = None) -> None:
        """Count the terms of titles and texts. Stop words count in titles only, which may consist of nothing else.

        Raises UsageError unless `mu` is positive.
        """
        if not (isfinite(mu) and mu > 0):
            raise UsageError(f"mu must be a positive number, but is {mu}")
        import numpy as np
        from scipy.sparse import csr_array

        self._mu, self._weights = mu, weights or Weights()
        self.ids: list[str] = []
        """The documents, in their order."""
        self._numbers: dict[str, int] = {}
        numbers, counts, bounds = array("i"), array("i"), array("q", [0])
        for page in documents:
            self.ids.append(page.id)
            for term, n in Counter(terms(page.title, keep_stops=True) + terms(page.text)).items():
                numbers.append(self._numbers.setdefault(term, len(self._numbers)))
                counts.append(n)
            bounds.append(len(counts))
        shape = (len(self.ids), len(self._numbers))
        matrix = csr_array((np.asarray(counts), np.asarray(numbers), np.asarray(bounds)), shape=shape)
        lengths = np.asarray(matrix.sum(axis=1), dtype=np.int64)
        # By term: a query reads the postings of its terms, and no document.
        self._counts, self._total = matrix.tocsc(), int(lengths.sum())
        self._log_length = np.log(mu + lengths)
        # A column has 8 bytes a document; 64 are the texts of a few conversations, however large the collection.
        columns = max(64, _CACHE_BYTES // (8 * max(1, len(self.ids))))
        self._column = lru_cache(columns)(self._score)

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """Return the `limit` best documents, ties in corpus order; [] if no term is in the collection."""
        return self.rank_conversation(ConversationText(query), limit)

    def rank_conversation(self, conversation: ConversationText, limit: int) -> list[Ranked]:
        """Return the `limit` best documents for a conversation; [] if no weighted term is in the collection."""
        columns = [self._column(conversation.query, True)]
        for text in conversation.questions + conversation.answers:
            columns.append(self._column(text, False))
        lengths = [column.words for column in columns]
        end_of_questions = 1 + len(conversation.questions)
        weights = self._weights.of_texts(lengths[0], lengths[1:end_of_questions], lengths[end_of_questions:])
        total: NDArray[np.float64] | None = None
        for weight, column in zip(weights, columns, strict=True):
            if not weight or column.scores is None:
                continue
            if total is None:
                total = weight * column.scores
            else:
                total += weight * column.scores
        if total is None:
            return []
        return [Ranked(self.ids[row], float(total[row])) for row in best_rows(total, limit)]

    def _score(self, text: str, is_query: bool) -> _Column:
        """Evaluate the last equation of the class for all documents at once."""
        import numpy as np

        words = terms(text)
        if is_query and not words:
            # As in search: stop words count only if a query has nothing else ("The Who").
            words = terms(text, keep_stops=True)
        numbers = self._numbers
        counted = Counter(word for word in words if word in numbers)
        if not counted:
            return _Column(len(words), None)
        scores = -counted.total() / len(words) * self._log_length
        postings, starts = self._counts, self._counts.indptr
        for term, count in counted.items():
            stretch = slice(starts[numbers[term]], starts[numbers[term] + 1])
            rows, counts = postings.indices[stretch], postings.data[stretch]
            share, odds = count / len(words), self._mu * int(counts.sum()) / self._total
            scores += share * log(odds)
            scores[rows] += share * np.log1p(counts / odds)
        return _Column(len(words), scores)


# --- Re-ranking


DEPTH: Final = 100
"""Documents that are re-ranked (AT-CoT, section 4.4)."""
BATCH: Final = 32
"""Documents that the model reads at once."""


class CrossEncoderRanker:
    """Re-ranks the `depth` best documents of `base`; others are not returned."""

    def __init__(self, base: Ranker, model_path: str | Path, corpus: Corpus, depth: int = DEPTH) -> None:
        """Load the model at `model_path`, a folder or a hub name.

        `corpus` has the texts of the documents. Raises UsageError if transformers or torch is not installed, and
        for a model that cannot score pairs.
        """
        self._base, self._corpus, self._depth = base, corpus, depth
        self._scorer = open_pair_scorer(model_path)
        self.name = f"{base.name}+{Path(model_path).name}"

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """Return at most `limit` of the `depth` documents, best first, ties in the order of `base`."""
        if limit < 1:
            return []
        candidates = self._base.rank(query, self._depth)
        texts: list[str] = []
        for candidate in candidates:
            page = self._corpus.document(candidate.id)
            # `base` may rank documents of another corpus: an unknown one is scored as an empty text.
            text = ""
            if page is not None:
                text = f"{page.title} {page.text}".strip()
            texts.append(text)
        scores = self._scores(query, texts)
        ranked = [Ranked(candidate.id, score) for candidate, score in zip(candidates, scores, strict=True)]
        # A stable sort: documents of equal scores stay as `base` ranks them.
        ranked.sort(key=lambda document: -document.score)
        return ranked[:limit]

    def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score the texts in batches of similar length, so that little of a batch is padding."""
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        scores = [0.0] * len(texts)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = [texts[row] for row in rows]
            for row, score in zip(rows, self._scorer.score(query, batch), strict=True):
                scores[row] = score
        return scores


# --- Models that score pairs

# The length that BERT and MonoT5 were trained with.
MAX_TOKENS: Final = 512
_CHARS_PER_TOKEN: Final = 12
"""Longer texts are cut to so many characters per token before they are tokenised, which would be slow."""
_CLASSIFIER: Final = "ForSequenceClassification"


def open_pair_scorer(model: str | Path) -> PairClassifier | MonoT5:
    """Load a model from a folder or by its hub name.

    UsageError if transformers or torch is not installed, if it cannot be loaded, or if it can score no pairs.
    """
    try:
        import transformers

        import_module("torch")
    except ImportError as error:
        missing = error.name or "transformers"
        raise UsageError(
            f"re-ranking needs {missing}, which is not installed: {install_command('bertscore')}"
        ) from None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    name = str(model)
    if Path(model).expanduser().exists():
        name = str(Path(model).expanduser())
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        classifies = any(_CLASSIFIER in architecture for architecture in config.architectures or ())
        if not classifies and not config.is_encoder_decoder:
            raise ValueError("it is neither a cross-encoder nor MonoT5")
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        if classifies:
            network = transformers.AutoModelForSequenceClassification.from_pretrained(name)
            return PairClassifier(network, tokenizer)
        return MonoT5(transformers.AutoModelForSeq2SeqLM.from_pretrained(name), tokenizer)
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"{name}: cannot be used for re-ranking: {reason}") from None


class _PairModel:
    """A network with its tokenizer, on the GPU if there is one."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        import torch

        device = "cpu"
        if torch.cuda.is_available():
            device = "cuda"
        # Without `eval` a network drops units at random, and a document's score would change from call to call.
        self._network = network.to(device).eval()
        self._tokenizer = tokenizer
        positions = getattr(network.config, "max_position_embeddings", None) or MAX_TOKENS
        self._max_tokens = min(MAX_TOKENS, int(positions), int(tokenizer.model_max_length))
        """Of query and document together."""


class PairClassifier(_PairModel):
    """A sequence classifier with one output (higher is better) or two classes (irrelevant, relevant).

    With two classes the score is the log-probability of "relevant".
    """

    def __init__(self, network: Any, tokenizer: Any) -> None:
        """Raises ValueError for three classes or more."""
        labels = int(network.config.num_labels)
        if labels not in (1, 2):
            raise ValueError(
                f"it has {labels} classes; only one output or two classes (irrelevant, relevant) can rank"
            )
        super().__init__(network, tokenizer)
        self._two = labels == 2

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one number for each text, in order; texts that are too long are truncated."""
        import torch

        beginnings = [text[: self._max_tokens * _CHARS_PER_TOKEN] for text in texts]
        tokens = self._tokenizer(
            [query] * len(beginnings),
            beginnings,
            truncation=True,
            max_length=self._max_tokens,
            padding=True,
            return_tensors="pt",
        )
        with torch.no_grad():
            logits = self._network(**tokens.to(self._network.device)).logits.float()
        if self._two:
            return _true_of_two(logits)
        return [float(score) for score in logits[:, 0].cpu()]


class MonoT5(_PairModel):
    """A sequence-to-sequence model (Nogueira et al., 2020) that completes "Query: q Document: d Relevant:"."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        """Raises ValueError if "true" or "false" is not a token of its vocabulary."""
        super().__init__(network, tokenizer)
        self._words: list[int] = []
        for word in ("false", "true"):
            pieces = self._pieces(word)
            if len(pieces) != 1 or pieces[0] == tokenizer.unk_token_id:
                raise ValueError(f"{word!r} is not in its vocabulary, so it is not a MonoT5")
            self._words += pieces
        self._question = self._pieces("Relevant:") + [tokenizer.eos_token_id]

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the log-probability of "true" for each text, in order; texts that are too long are truncated."""
        import torch

        # "Relevant:" has to be at the end, however long the document is.
        room = self._max_tokens - len(self._question)
        ids: list[list[int]] = []
        for text in texts:
            document = text[: self._max_tokens * _CHARS_PER_TOKEN]
            ids.append(self._pieces(f"Query: {query} Document: {document}")[:room] + self._question)
        tokens = self._tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(self._network.device)
        start = int(self._network.config.decoder_start_token_id)
        starts = torch.full((len(ids), 1), start, device=self._network.device)
        with torch.no_grad():
            output = self._network(
                input_ids=tokens["input_ids"],
                attention_mask=tokens["attention_mask"],
                decoder_input_ids=starts,
            )
        return _true_of_two(output.logits[:, 0, self._words].float())

    def _pieces(self, text: str) -> list[int]:
        pieces: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return pieces


def _true_of_two(logits: Any) -> list[float]:
    return [float(score) for score in logits.log_softmax(dim=-1)[:, 1].cpu()]
