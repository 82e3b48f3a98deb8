"""Every kind of dataset describes itself."""

from __future__ import annotations

from dataclasses import asdict

from cts_async.datasets.about import ABOUT
from cts_async.datasets.kinds import KINDS, WITHOUT_INSTANCES


def test_every_kind_that_opens_is_described_and_the_other_way_round() -> None:
    assert {about.name for about in ABOUT.values() if about.taken} == {*KINDS, "file"}
    assert {about.name for about in ABOUT.values() if not about.taken} == {*WITHOUT_INSTANCES}


def test_a_description_lacks_nothing_but_perhaps_a_paper() -> None:
    for name, about in ABOUT.items():
        assert about.name == name
        assert all(value for field, value in asdict(about).items() if field not in ("paper", "taken"))
        assert name == "file" or about.spec.startswith(name)
