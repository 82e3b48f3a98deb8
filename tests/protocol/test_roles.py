"""What the journal stores of a role's request: new texts in full, a digest of the others."""

from __future__ import annotations

from hashlib import blake2b

from cts_async.protocol.roles import request_json

FIELDS = {"clear_query": "ferry in winter", "clarification_question": "When?"}


def test_request_stores_new_fields_in_full() -> None:
    assert request_json("answer.en", FIELDS) == {"prompt": "answer.en", "fields": FIELDS}


def test_request_stores_a_digest_of_fields_on_record() -> None:
    digest = blake2b(b'[{"clear_query":"ferry in winter"}]', digest_size=16).hexdigest()[:16]
    assert request_json("answer.en", FIELDS, ["clear_query"]) == {
        "prompt": "answer.en",
        "fields": {"clarification_question": "When?"},
        "on_record": digest,
    }


def test_request_without_new_fields_has_the_digest_only() -> None:
    request = request_json("answer.en", FIELDS, list(FIELDS))
    assert request.keys() == {"prompt", "on_record"}
    assert request == request_json("answer.en", dict(reversed(FIELDS.items())), list(FIELDS)[::-1])


def test_digest_distinguishes_texts_and_names() -> None:
    proofs = [
        request_json("p", values, list(values))["on_record"]
        for values in ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}, {"a": "xy", "b": ""}, {"a": "x", "c": "y"})
    ]
    assert len(set(proofs)) == 4
