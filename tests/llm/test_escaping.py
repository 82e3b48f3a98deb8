"""What reads as a tag of a fence is written out; everything else in a text stays as it was."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.llm.escaping import fence_pattern, harmless

TAGS = frozenset({"candidate_answer", "query"})
FENCE = fence_pattern(TAGS)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("</query>", "&lt;/query>"),
        ("<query>", "&lt;query>"),
        ("a<b</Query >c", "a<b&lt;/Query >c"),
        ("＜／ｑｕｅｒｙ＞", "&lt;／ｑｕｅｒｙ＞"),
        ("<\u200b/\u00adqu\u2060ery>", "&lt;\u200b/\u00adqu\u2060ery>"),
        ("</ⓠⓤⓔⓡⓨ>", "&lt;/ⓠⓤⓔⓡⓨ>"),
        ("&lt;/query&gt;", "&lt;/query&gt;"),
        ("&#60;/query>", "&lt;/query>"),
        ("&#x003C/query>", "&lt;/query>"),
        ("</candidate answer>", "&lt;/candidate answer>"),
        ("</candidate\n-answer>", "&lt;/candidate\n-answer>"),
        ("</candidateanswer>", "&lt;/candidateanswer>"),
        ("<//query>", "&lt;//query>"),
        ("<&#47;query>", "&lt;&#47;query>"),
        ("</qu\u0301ery>", "&lt;/qu\u0301ery>"),
        ("<\u2800/\x9bquery>", "&lt;\u2800/\x9bquery>"),
        ("«/query»", "&lt;/query»"),
        ("</ǫᴜᴇʀʏ>", "&lt;/ǫᴜᴇʀʏ>"),
        ("</САΝDIDАТЕ_АΝЅWЕR>", "&lt;/САΝDIDАТЕ_АΝЅWЕR>"),
        ("</candidate.answer>", "&lt;/candidate.answer>"),
        ("</candidate__answer>", "&lt;/candidate__answer>"),
        ("</candidate_ -\u200b_answer>", "&lt;/candidate_ -\u200b_answer>"),
        ("<|im_end|>", "&lt;|im_end|>"),
        ("[/INST]", "&#91;/INST]"),
        ("</s>", "&lt;/s>"),
    ],
)
def test_lookalike_tags_are_escaped(text: str, written: str) -> None:
    assert harmless(text, TAGS) == written


ANGLED = (
    "s /s bos eos unk pad mask sop eop BOS_TOKEN EOS_TOKEN UNK PAD start_of_turn /end_of_turn "
    "turn| channel| seed:bos seed:eos /seed:think _user _bot _end reserved_106"
)
SQUARE = (
    "INST SYSTEM_PROMPT AVAILABLE_TOOLS TOOL_RESULTS TOOL_CALLS TOOL_CONTENT ARGS CALL_ID THINK IMG IMG_BREAK "
    "IMG_END AUDIO BEGIN_AUDIO TRANSCRIBE PREFIX MIDDLE SUFFIX MODEL_SETTINGS"
)


@pytest.mark.parametrize("name", ["|im_start|", "|eot_id|", "｜User｜", *ANGLED.split()])
def test_control_tokens_in_angle_brackets_are_written_out(name: str) -> None:
    assert harmless(f"a <{name}> b", None) == f"a &lt;{name}> b"


@pytest.mark.parametrize("token", ["]~b]", "]~!b[", "[e~["])
def test_control_tokens_of_other_shapes_are_written_out(token: str) -> None:
    written = {"[": "&#91;", "]": "&#93;"}[token[0]] + token[1:]
    assert harmless(f"a {token} b", None) == f"a {written} b"


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("name", SQUARE.split())
def test_control_tokens_in_square_brackets_are_written_out(name: str, slash: str) -> None:
    assert harmless(f"a [{slash}{name}] b", None) == f"a &#91;{slash}{name}] b"
    assert harmless(f"a [{slash}{name.lower()}] [X{name}] [{name}X] b", None) == (
        f"a [{slash}{name.lower()}] [X{name}] [{name}X] b"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "<b>bold</b> &amp; [1] <span>",
        "《查询》〈甲〉",
        "<queryset> <my_query> x < y",
        "</strike> <sup>",
        "a | b < c | d",
        "[INSTALL] [system] [A_B] [TOOL RESULTS] <unknown> <padding> <thinker> [1] [IMAGE]",
        "«Voilà», x ≤ query, naïve",
        "candidate_answer query",
        "list[0] ~b] a[i]~[j] <user> <_users> <reserved> <seed> a|>b <reserved_x>",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert harmless(text, TAGS) is text


def test_without_fences_only_turns_are_written_out() -> None:
    assert fence_pattern(frozenset()) is None
    assert harmless("<query> <|im_start|>", frozenset()) == "<query> &lt;|im_start|>"


PIECES = st.sampled_from(
    [
        "<",
        "＜",
        "/",
        "query",
        "QUERY",
        "q",
        "\u200b",
        " ",
        "&#60;",
        "[",
        "INST]",
        "]",
        "~b]",
        "e~[",
        "|>",
        "x",
        "&lt;",
    ]
)


@given(st.lists(PIECES).map("".join))
def test_escaping_is_idempotent_and_changes_only_brackets(text: str) -> None:
    assert FENCE is not None
    once = harmless(text, TAGS)
    assert harmless(once, TAGS) == once
    assert all(found[0] == "&lt;" for found in FENCE.finditer(once))
    plain = re.compile(r"&lt;|&#60;|&#91;|&#93;|[<＜\[\]]")
    assert plain.sub("", once) == plain.sub("", text)


@pytest.mark.parametrize(
    "piece",
    ["<candidate" + " " * 999, "<", "&#00000", "<\u200b", "<candidate_answe ", "[", "]", "<" + "a" * 39],
)
def test_a_text_made_to_take_long_does_not(piece: str) -> None:
    """Each character is looked at a few times at most: 300,000 of them are done at once."""
    text = (piece * 300_000)[:300_000]
    assert harmless(text, TAGS) == text
