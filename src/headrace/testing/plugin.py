"""The pytest plugin: a fixture that makes drivers and closes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.testing.driver import TopologyTestDriver


@pytest.fixture
def topology_test_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Makes drivers, `topology_test_driver(topology, config, ...)`, and closes them at the end of the test."""
    from headrace.testing.driver import TopologyTestDriver

    with ExitStack() as drivers:

        def make(*args: Any, **options: Any) -> TopologyTestDriver:
            return drivers.enter_context(TopologyTestDriver(*args, **options))

        yield make
