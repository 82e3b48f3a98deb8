"""Terms of English and Chinese text, its sentences, and the passages of it that match a query.

Documents and queries are analysed alike. Text is folded first (NFKC, lower case, accents removed). A run of Chinese
is segmented by jieba in its search mode without the hidden Markov model, so that equal text always gives equal terms;
any other run of letters and digits is one term, lightly stemmed.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import unicodedata
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

_HAN: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUN: Final = re.compile(f"[{_HAN}]+|[^\\W_{_HAN}]+")
_IS_HAN: Final = re.compile(f"[{_HAN}]")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_VOWEL: Final = re.compile("[aeiouy]")

STOP_WORDS: Final = frozenset(Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split())
"""English and Chinese words that say nothing about a subject."""

# --- Terms


def fold(text: str) -> str:
    """Return `text` in lower case, in one width and without accents; its length may change."""
    # Nothing to decompose: most English pages are read without the slow part.
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", decomposed))


def terms(text: str, *, keep_stops: bool = False) -> list[str]:
    """Return the terms of `text` in order, with repetitions; without stop words unless `keep_stops`."""
    stems: list[str] = []
    for run in _RUN.findall(fold(text)):
        words: Iterable[str] = (run,)
        if _IS_HAN.match(run):
            words = _tokenizer().cut_for_search(run, HMM=False)
        stems.extend(stem(word) for word in words if keep_stops or word not in STOP_WORDS)
    return stems


def query_terms(query: str) -> list[str]:
    """Return each distinct term of a query once; stop words only if there is nothing else ("The Who")."""
    return list(dict.fromkeys(terms(query) or terms(query, keep_stops=True)))


def present(text: str, searched: Collection[str]) -> set[str]:
    """Return the terms `searched` that occur in `text`: Chinese ones anywhere, others as whole words."""
    folded = fold(text)
    words = {stem(run) for run in _RUN.findall(folded)}
    found_terms: set[str] = set()
    for term in searched:
        place: Collection[str] = words
        # Chinese has no blanks, and a page's text may be segmented otherwise than a query.
        if _IS_HAN.match(term):
            place = folded
        if term in place:
            found_terms.add(term)
    return found_terms


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Remove a plural, -ed, -ing or final -e from an English word: theories -> theory, planned -> plan."""
    if len(word) < 4 or not word.isascii():
        return word
    word = _without_suffix(_singular(word))
    if len(word) > 3 and word.endswith("e") and not word.endswith("ee"):
        return word[:-1]
    return word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_suffix(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    for suffix in ("ing", "ed"):
        base = word.removesuffix(suffix)
        has_suffix = base != word and not word.endswith("eed")
        if not has_suffix or len(base) < 3 or not _VOWEL.search(base):
            continue
        if base[-1] == base[-2] and base[-1] not in "lsz":  # planned, but neither falling nor passed
            return base[:-1]
        return base
    return word


def pieces(text: str) -> Iterator[str]:
    """Split `text` without loss into words as they are written, Chinese ones too, and what is between them."""
    end = 0
    for run in _RUN.finditer(text):
        if run.start() > end:
            yield text[end : run.start()]
        if _IS_HAN.match(run[0]):
            yield from _tokenizer().cut(run[0], HMM=False)
        else:
            yield run[0]
        end = run.end()
    if text[end:]:
        yield text[end:]


def is_word(piece: str) -> bool:
    """True if a piece of a text is a word."""
    return _RUN.match(piece) is not None


_jieba_lock: Final = threading.Lock()
_jieba: Final[list[Any]] = []


def _tokenizer() -> Any:
    # Searches run in threads, and the dictionary is to be in memory once.
    with _jieba_lock:
        if not _jieba:
            _jieba.append(_load_jieba())
    return _jieba[0]


def _load_jieba() -> Any:
    """Load jieba's dictionary without the side effects of its `initialize`: logging, and a cache file in /tmp."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba
    logging.getLogger("jieba").setLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer


# --- Sentences

Span = tuple[int, int]

_SENTENCE_END: Final = re.compile(r"""[。！？；…]+[”’」』）"']*|(?<![.!?])[.!?]++["'”’)\]]*+(?=\s|\Z)|\n+""")
_BREAKS: Final = " \t，、,："


def sentence_spans(text: str, max_chars: int) -> list[Span]:
    """Return (start, end) of each sentence, trimmed, in order; one longer than `max_chars` is cut."""
    spans: list[Span] = []
    start = 0
    max_chars = max(1, max_chars)
    for sentence_end in _SENTENCE_END.finditer(text):
        spans.extend(_trimmed_and_cut(text, start, sentence_end.end(), max_chars))
        start = sentence_end.end()
    spans.extend(_trimmed_and_cut(text, start, len(text), max_chars))
    return spans


def _trimmed_and_cut(text: str, start: int, end: int, max_chars: int) -> Iterator[Span]:
    while True:
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        if end - start <= max_chars:
            break
        # After a space or comma in the second half, else at the limit.
        limit = start + max_chars
        cut = max(text.rfind(char, start, limit) for char in _BREAKS) + 1
        if cut - 1 - start < max_chars // 2:
            cut = limit
        yield start, cut
        start = cut
    if start < end:
        yield start, end


# --- Passages

_SENTENCE_CHARS: Final = 400
"""A longer sentence of a page is cut before it competes for the evidence."""


def best_window(text: str, weights: Mapping[str, float], max_chars: int) -> str:
    """Return the run of whole sentences, at most `max_chars` long, with the greatest weight of distinct terms.

    The first of equals wins; a text without any of the terms gives its beginning, an empty one "".
    """
    spans = sentence_spans(text, max_chars)
    if not spans:
        return ""
    terms_by_sentence = [present(text[start:end], weights) for start, end in spans]

    def window_from(row: int) -> range:
        """The sentences from `row` on that fit together."""
        stop = row + 1
        while stop < len(spans) and spans[stop][1] - spans[row][0] <= max_chars:
            stop += 1
        return range(row, stop)

    best, best_weight = window_from(0), -math.inf
    for row, sentence_terms in enumerate(terms_by_sentence):
        # A sentence without a term only takes room from those behind it.
        if not sentence_terms:
            continue
        window = window_from(row)
        window_terms: set[str] = set()
        for terms_there in terms_by_sentence[row : window.stop]:
            window_terms |= terms_there
        # In the order of the weights: a sum of floats depends on it, and that of a set changes between processes.
        weight = sum(weight for term, weight in weights.items() if term in window_terms)
        if weight > best_weight:
            best, best_weight = window, weight
    begin, end = best.start, spans[best.stop - 1][1]
    while begin > 0 and end - spans[begin - 1][0] <= max_chars:  # fill the rest of the room from before
        begin -= 1
    return " ".join(text[spans[begin][0] : end].split())


def extract_for_goal(text: str, goal: str, max_chars: int) -> str:
    """Return the sentences of a page that share most with `goal`, in page order, within `max_chars`.

    A page that fits is returned whole. Terms that are rare on the page weigh more; among equals, and if nothing
    matches, earlier sentences are preferred.
    """
    text = text.strip()
    if len(text) <= max_chars:
        return text
    spans = sentence_spans(text, min(_SENTENCE_CHARS, max_chars))
    goal_terms = query_terms(goal)
    terms_of = {span: present(text[span[0] : span[1]], goal_terms) for span in spans}
    n_sentences: Counter[str] = Counter()
    for sentence_terms in terms_of.values():
        n_sentences.update(sentence_terms)
    weights = {term: math.log1p(len(spans) / n) for term, n in n_sentences.items()}

    def score(span: Span) -> float:
        # Exact in any order: that of a set of texts changes between processes.
        return math.fsum(weights[term] for term in terms_of[span])

    chosen: list[Span] = []
    room = max_chars + 1
    for span in sorted(spans, key=score, reverse=True):  # a stable sort: equal ones stay in page order
        start, end = span
        if end - start + 1 <= room:  # one character stands between it and the next
            chosen.append(span)
            room -= end - start + 1
    return _assembled(text, sorted(chosen))


def _assembled(text: str, spans: Sequence[Span]) -> str:
    """Join sentences: neighbours by the single space between them, if there is one, others by a line break."""
    parts: list[str] = []
    before = 0
    for start, end in spans:
        gap = text[before:start]
        # A line break where sentences were left out, so that the agent does not read them as one passage.
        if gap and gap != " ":
            gap = "\n"
        parts.append(gap)
        parts.append(text[start:end])
        before = end
    return "".join(parts).strip()
