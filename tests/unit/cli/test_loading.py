from __future__ import annotations

import pytest

from headrace.cli.loading import default_application_id


@pytest.mark.parametrize(
    ("reference", "application_id"),
    [("orders:topology", "orders"), ("examples.orders:topology", "orders"), ("shop.café:topology", "caf-")],
)
def test_an_application_is_named_after_its_module(reference: str, application_id: str) -> None:
    assert default_application_id(reference) == application_id
