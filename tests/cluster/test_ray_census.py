"""Nodes that could not run a worker are named before one is started there."""

from __future__ import annotations

import platform

import pytest

pytest.importorskip("ray", reason="Ray is not here")

from cts_async import __version__
from cts_async.cluster.ray_census import Resident, check_residents
from cts_async.errors import UsageError

HERE = platform.python_version()
FIT = Resident("head", HERE, __version__)


def test_nodes_that_have_what_is_here_will_do() -> None:
    check_residents([FIT, FIT])
    check_residents([])


def test_each_host_that_lacks_the_package_or_has_another_one_is_named() -> None:
    found = [FIT, Resident("a", HERE, None), Resident("b", HERE, "0.1.0"), Resident("a", HERE, None)]
    with pytest.raises(UsageError) as raised:
        check_residents(found)
    assert str(raised.value) == (
        f"every node of the cluster needs cts-async {__version__}, as it is here: a has none; b has 0.1.0 "
        f"(in the Python that Ray runs on there): pip install 'cts-async[ray]=={__version__}'"
    )


def test_another_python_is_no_fit_but_another_patch_of_it_is() -> None:
    check_residents([Resident("a", f"{HERE.rpartition('.')[0]}.99", __version__)])
    with pytest.raises(UsageError, match=r"needs Python 3\.\d+, as it is here: b has 3\.7\.1$"):
        check_residents([FIT, Resident("b", "3.7.1", __version__)])
