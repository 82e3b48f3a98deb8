"""What of one text occurs in it alone: its words, numbers and neighbours, and where another text holds them.

Texts are compared in one width and case (NFKC, then case-folded), without characters that nobody sees, and with
years in digits. A unit is a word, a number, or one
ideograph; punctuation and space only part units. Of q*, these are secret where nobody was told them:

- every *pair* of neighbouring units that stands in no text told, and so every longer run with such a pair;
- every single *number* that stands in no text told;
- every single *word* that stands in no text told, unless it says nothing by itself: a function word, or a
  word of the prompts, which everybody reads. A single ideograph says nothing by itself: its pairs do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from cts_async.records import UNKNOWN
from cts_async.search.terms import STOP_WORDS, stem

# --- Words


_FUNCTION: Final = """
    above across against along among around away back behind below beside best better beyond cannot down
    during each either else ever every everything find finding first former get gets getting give given go
    good got has however instead know last latter least less let like made make makes making many may might
    much must need needed needs neither next none nor nothing now often one ones onto others ought per
    please possible put rather really said say see seem several shall since somebody someone something
    still take take taken tell than therefore though thus together toward towards upon use used using
    various via want wanted wants way well whatever whether within without won would yes yet
"""
FUNCTION_WORDS: Final = STOP_WORDS | frozenset(_FUNCTION.split())
"""Function words of English, those of the embedded search among them; Chinese ones too."""

_GENERAL: Final = """
    about additional advice allowed amount answer applicable application apply applying area available average
    basic benefit book booking buy change charge check choice choose city common compare comparison complete
    condition contact content cost country criteria current cut date day deadline deal definition description
    detail difference different document eligibility eligible example exact explain explanation fact factor
    fee full general guide guideline happen help history hour how important include including info information
    instruction issue item kind latest law level limit link list local location main maximum meaning mean
    method minimum month name new number obtain offer office official online open opening option order
    overview page part payment people permit person place plan policy price procedure process product provide
    public purpose question range rate reason recent recommend recommendation recommended regarding region
    regulation related relevant require required requirement result review rule schedule search service set
    show similar site source specific specifically standard start state statistics status step subject
    suitable summary term the thing ticket time timetable tip today top topic total type typical update
    user value various version visit website week what when where which work year
"""
GENERAL: Final = frozenset(_GENERAL.split())
"""English words that any clearer query may bring along, stemmed or not: alone they are no constraint."""

_GENERAL_HAN: Final = """
    有哪些 是什么 怎么办 怎么样 怎么 如何 什么 哪些 哪里 哪个 多少 是否 能否 可以 需要 以及 还有 或者 关于
    对于 进行 包括 其中 之间 目前 现在 当前 最新 最近 近期 具体 详细 相关 有关 主要 一般 通常 常见 不同 各种
    办法 方法 方式 方案 步骤 流程 过程 程序 手续 办理 申请 材料 条件 要求 资格 标准 规定 规则 政策 措施 时间
    日期 期限 地点 地方 地址 位置 范围 区别 差异 对比 比较 价格 费用 收费 票价 多少钱 金额 数量 情况 信息
    内容 资料 数据 介绍 说明 解释 定义 含义 意思 类型 种类 分类 原因 因素 影响 作用 功能 特点 优势 优缺点 推荐
    建议 指南 攻略 教程 查询 搜索 预约 预订 购买 使用 选择 提供 官方 网站 问题 结果 排名 名单 列表 适合 适用
"""
GENERAL_HAN: Final = tuple(sorted(_GENERAL_HAN.split(), key=len, reverse=True))
"""Chinese words that any clearer query may bring along, the longest first."""

FUNCTION_HAN: Final = frozenset(
    "的了和是在有他她它们这那就都而及与或着也把被你您我吗呢吧啊么谁哪几对从到于之其但为以个等中上下里"
)
"""Characters of Chinese that bind words."""

_PLACES: Final = """
    africa america asia australia austria beijing belgium berlin boston brazil britain california canada
    chicago china denmark dubai england europe finland france germany greece guangzhou hangzhou india
    indonesia ireland israel italy japan kenya korea london macau malaysia mexico moscow munich netherlands
    nigeria norway paris philippines poland portugal russia scotland seoul shanghai shenzhen singapore spain
    sweden switzerland sydney taiwan texas thailand tokyo toronto turkey uk ukraine usa vietnam wales
"""
PLACES: Final = frozenset(_PLACES.split())
"""English names of places that people also write small."""

_PLACES_HAN: Final = """
    北京 上海 天津 重庆 河北 山西 辽宁 吉林 黑龙江 江苏 浙江 安徽 福建 江西 山东 河南 湖北 湖南 广东 海南 四川
    贵州 云南 陕西 甘肃 青海 台湾 内蒙古 广西 西藏 宁夏 新疆 香港 澳门 石家庄 太原 沈阳 大连 长春 哈尔滨 南京
    苏州 无锡 杭州 宁波 温州 合肥 福州 厦门 南昌 济南 青岛 郑州 洛阳 武汉 长沙 广州 深圳 珠海 佛山 东莞 南宁 桂林
    海口 三亚 成都 贵阳 昆明 拉萨 西安 兰州 西宁 银川 乌鲁木齐 中国 美国 英国 法国 德国 日本 韩国 俄罗斯 加拿大
    澳大利亚 新西兰 新加坡 马来西亚 泰国 越南 印度 意大利 西班牙 瑞士 巴西 欧洲 亚洲 非洲 北美 全国 国内 海外
"""
PLACES_HAN: Final = tuple(_PLACES_HAN.split())
"""Chinese names of provinces, large cities, countries and continents."""


# --- Numerals


_ONES: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL: Final = {
    **{word: n for n, word in enumerate(_ONES)},
    **{word: 10 * n for n, word in enumerate(_TENS, 2)},
}
_LARGE: Final = {"thousand": 1_000, "million": 1_000_000}
_WORD: Final = "|".join(sorted([*_SMALL, "hundred", *_LARGE], key=len, reverse=True))
_ENGLISH: Final = re.compile(rf"\b(?:{_WORD})(?:(?:[\s-]+(?:and\s+)?)(?:{_WORD}))*\b")

_DIGITS: Final = {sign: n for n, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "○": 0, "两": 2}
_UNITS: Final = {"十": 10, "百": 100, "千": 1_000}
_SIGN: Final = "[零〇○一二两三四五六七八九十百千万]"
_COUNTED: Final = "[个年月日天周层楼人名次种家元岁条位本部届级号项点小分公万]"
_CHINESE: Final = re.compile(f"{_SIGN}{{2,}}|{_SIGN}(?={_COUNTED})")
"""A single sign is a number in front of what is counted: 四楼, and not 四川."""
_YEAR: Final = re.compile("[一二][〇零○一二三四五六七八九]{3}(?=年)")


def with_years_in_digits(text: str) -> str:
    """The text with 2023年 for 二〇二三年."""
    return _YEAR.sub(lambda found: "".join(str(_DIGITS[sign]) for sign in found[0]), text)


def spelled(text: str) -> frozenset[str]:
    """The numbers that a *normalised* text spells, in digits; without one, which is an article as often."""
    numbers = {*map(_english, _ENGLISH.findall(text)), *map(_chinese, _CHINESE.findall(text))}
    return frozenset(str(number) for number in numbers if number > 1)


def _english(words: str) -> int:
    total = part = 0
    for word in re.split(r"[\s-]+", words):
        if word in _SMALL:
            part += _SMALL[word]
        elif word == "hundred":
            part = max(part, 1) * 100
        elif word in _LARGE:
            total, part = total + max(part, 1) * _LARGE[word], 0
    return total + part


def _chinese(signs: str) -> int:
    if not any(sign in _UNITS or sign == "万" for sign in signs):
        return int("".join(str(_DIGITS[sign]) for sign in signs))
    return sum(
        _below_ten_thousand(part) * power
        for part, power in zip(reversed(signs.split("万")), _powers(), strict=False)
    )


def _powers() -> Iterator[int]:
    power = 1
    while True:
        yield power
        power *= 10_000


def _below_ten_thousand(signs: str) -> int:
    """十二 is 12, 三百零五 is 305; an empty part, as in front of 万 alone, is 0."""
    total = digit = 0
    for sign in signs:
        if sign in _UNITS:
            total, digit = total + (digit or 1) * _UNITS[sign], 0
        else:
            digit = _DIGITS[sign]
    return total + digit


# --- Text


HAN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Ideographs and kana, as the inside of a character class: scripts that put no space between words."""

_UNIT: Final = re.compile(
    rf"[{HAN}]|\d+(?:[.,]\d+)*|(?:(?![{HAN}])[^\W\d_])+(?:['’](?:(?![{HAN}])[^\W\d_])+)?"
)
_IS_HAN: Final = re.compile(f"[{HAN}]")
_INVISIBLE: Final = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]+"
)
_THOUSANDS: Final = re.compile(r",(?=\d{3}(?!\d))")


class Unit(NamedTuple):
    """A word, number or ideograph, and where in the normalised text it stands."""

    text: str
    start: int
    end: int

    @property
    def is_number(self) -> bool:
        return self.text[0].isdecimal()

    @property
    def is_han(self) -> bool:
        return _IS_HAN.match(self.text) is not None


def normalised(text: str) -> str:
    """The text in one width and case, and as `plain` says."""
    return text.lower() if text.isascii() else plain(text).casefold()


def plain(text: str) -> str:
    """The text in one width, without soft hyphens and whatever else is invisible, and with years in digits."""
    return with_years_in_digits(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def units(text: str) -> list[Unit]:
    """The units of a *normalised* text, in order. A number has no separators of thousands."""
    return [Unit(_ungrouped(found[0]), found.start(), found.end()) for found in _UNIT.finditer(text)]


def names(text: str) -> list[str]:
    """The units of any text, in order, without their places."""
    return [_ungrouped(unit) for unit in _UNIT.findall(normalised(text))]


def _ungrouped(unit: str) -> str:
    return _THOUSANDS.sub("", unit) if unit[0].isdecimal() else unit


@dataclass(frozen=True, slots=True)
class Told:
    """Everything that somebody was told: its single units, and its pairs of neighbours within one text."""

    singles: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Told:
        singles: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        for text in texts:
            found = names(text)
            singles.update(found)
            pairs.update(pairwise(found))
        return cls(frozenset(singles), frozenset(pairs))


@dataclass(frozen=True, slots=True)
class Secret:
    """The units and pairs of a text that somebody else must not have; see the module's rule."""

    singles: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, text: str, told: Iterable[str], vocabulary: Collection[str] = frozenset()) -> Secret:
        """What of `text` none of the texts `told` holds. `vocabulary`: words that say nothing by themselves."""
        own, known = units(normalised(text)), Told.of(told)
        singles = {
            unit.text
            for unit in own
            if unit.text not in known.singles
            and (
                unit.is_number or not (unit.is_han or unit.text in FUNCTION_WORDS or unit.text in vocabulary)
            )
        }
        pairs = pairwise(unit.text for unit in own)
        return cls(frozenset(singles), frozenset(pairs) - known.pairs)

    def spans(self, text: str) -> Iterator[str]:
        """The longest pieces of `text` (normalised) that are made of this, in order."""
        text = normalised(text)
        found = units(text)
        taken = [unit.text in self.singles for unit in found]
        for i, (left, right) in enumerate(pairwise(found)):
            if (left.text, right.text) in self.pairs:
                taken[i] = taken[i + 1] = True
        start: int | None = None
        for i, unit in enumerate(found):
            if taken[i]:
                start = unit.start if start is None else start
                if i + 1 == len(found) or not taken[i + 1]:
                    yield text[start : unit.end]
                    start = None


def vocabulary_of(texts: Iterable[str]) -> frozenset[str]:
    """The words of `texts` (prompts, that everybody reads), without numbers and single ideographs."""
    return frozenset(
        unit.text for text in texts for unit in units(normalised(text)) if not (unit.is_number or unit.is_han)
    )


# --- Rewrites


_DENIAL: Final = re.compile(r"(?:no|nope|not|none|neither|不|否|没|无|都不|并不|并非)(?![a-z])")
_TITLE: Final = re.compile(r"《([^《》]{1,60})》")
_GENERAL_STEMS: Final = frozenset(map(stem, GENERAL))
_GENERAL_RUN: Final = re.compile("|".join(map(re.escape, GENERAL_HAN)))


@dataclass(frozen=True, slots=True)
class Addition:
    """A constraint that no answer elicited, as it stands in the (normalised) rewritten query."""

    level: Literal["leak", "unsupported"]
    text: str


class _Known:
    """A few texts, to be asked what they hold: words without endings, characters, names."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = "\n".join(normalised(text) for text in texts)
        told = Told.of(self.text.split("\n"))
        self.digits = {single for single in told.singles if single[0].isdecimal()}
        self.names = {stem(single) for single in told.singles} | spelled(self.text)
        self.pairs = told.pairs

    def has(self, unit: Unit) -> bool:
        return stem(unit.text.casefold()) in self.names


def additions(
    q_hat: str,
    q: str,
    q_star: str,
    pairs: Sequence[tuple[str, str]],
    vocabulary: Collection[str] = frozenset(),
) -> list[Addition]:
    """The constraints of `q_hat` that `pairs` (question, answer) did not elicit, each once; empty: it is clean."""
    elicited = [answer for _, answer in pairs if answer != UNKNOWN]
    confirmed = [question for question, answer in pairs if answer != UNKNOWN and not _denied(answer)]
    told = _Known([q, *elicited, *confirmed])
    asked = _Known([q, *elicited, *(question for question, _ in pairs)])
    star = _Known([q_star])
    found = [*_names(q_hat, told, asked, star), *_words(q_hat, told, asked, star, vocabulary)]
    found += [Addition("leak", number) for number in sorted(_spelled(q_hat, asked, star))]
    runs = [run for run in _runs(q_hat, asked, star) if not any(run in addition.text for addition in found)]
    found = [a for a in found if not any(a.text in run for run in runs)]
    return list(dict.fromkeys([*found, *(Addition("leak", run) for run in runs)]))


def _denied(answer: str) -> bool:
    return _DENIAL.match(normalised(answer).strip()) is not None


def _level(in_star: bool, in_asked: bool) -> Literal["leak", "unsupported"]:
    return "leak" if in_star and not in_asked else "unsupported"


def _names(q_hat: str, told: _Known, asked: _Known, star: _Known) -> Iterator[Addition]:
    """Chinese places and titles, found as pieces of the text."""
    text = normalised(q_hat)
    titles = [title[1].strip() for title in _TITLE.finditer(text)]
    for name in [*(place for place in PLACES_HAN if place in text), *titles]:
        if name and name not in told.text:
            yield Addition(_level(name in star.text, name in asked.text), name)


def _words(
    q_hat: str, told: _Known, asked: _Known, star: _Known, vocabulary: Collection[str]
) -> Iterator[Addition]:
    """Numbers, and words of scripts with spaces between them."""
    found = [unit for unit in units(plain(q_hat)) if not unit.is_han]
    named = _named(found)
    for unit in found:
        if told.has(unit):
            continue
        word = unit.text.casefold()
        in_star, in_asked = star.has(unit), asked.has(unit)
        if unit.is_number or unit in named:
            yield Addition(_level(in_star, in_asked), word)
        elif in_star and not in_asked and not _ordinary(word, vocabulary):
            yield Addition("leak", word)


def _spelled(q_hat: str, asked: _Known, star: _Known) -> set[str]:
    """Numbers that the rewritten query has in words and q* in digits; words in both are compared as words."""
    return set(spelled(normalised(q_hat)) & star.digits - asked.names)


def _ordinary(word: str, vocabulary: Collection[str]) -> bool:
    return word in FUNCTION_WORDS or word in vocabulary or stem(word) in _GENERAL_STEMS


def _named(found: Sequence[Unit]) -> set[Unit]:
    """The words written as names: capitalised within a text that is not capitalised anyway, or known places."""
    words = [unit for unit in found if not unit.is_number]
    capitalised = [unit for unit in words if unit.text[0].isupper()]
    places = {unit for unit in words if unit.text.casefold() in PLACES}
    if 2 * len(capitalised) > len(words):
        return places
    names = {unit for unit in capitalised if unit.start or (len(unit.text) > 1 and unit.text.isupper())}
    return places | {unit for unit in names if unit.text.casefold() not in FUNCTION_WORDS}


def _runs(q_hat: str, asked: _Known, star: _Known) -> Iterator[str]:
    """The longest runs of Chinese that q* has too and that say something new."""
    text = normalised(q_hat)
    found = units(text)
    start = end = -1
    for left, right in pairwise([*found, Unit("", -1, -1)]):
        shared = left.is_han and right.start == left.end and (left.text, right.text) in star.pairs
        if shared and (left.text, right.text) not in asked.pairs:
            start, end = (left.start if start < 0 else start), right.end
        elif start >= 0:
            if _says_something(text[start:end], asked):
                yield text[start:end]
            start = -1


def _says_something(run: str, asked: _Known) -> bool:
    """Whether two characters of the run are new and belong to no general word."""
    rest = _GENERAL_RUN.sub("", run)
    return sum(char not in FUNCTION_HAN and char not in asked.text for char in rest) >= 2
