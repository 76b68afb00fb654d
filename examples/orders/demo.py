"""What `headrace demo orders` runs and shows."""

from __future__ import annotations

from headrace.cli.examples import Demo, Result

from .api import router
from .generator import messages
from .models import TotalRevenueWithAddress
from .pipeline import GENERAL, RESTAURANT, address_json, config, number, text, topology


def results(kind: str, name: str) -> tuple[Result, ...]:
    """Count and revenue of one type of orders."""

    def count(location: str, orders: int) -> dict[str, str]:
        return {"location": location, "type": kind, "orders": f"{orders:,}"}

    def revenue(location: str, result: TotalRevenueWithAddress) -> dict[str, str]:
        amount = f"{result.total_revenue.running_revenue:,}"
        return {"location": location, "type": kind, "city": result.store.address.city, "revenue": amount}

    return (
        Result(f"{name}_count", text, number, count),
        Result(f"{name}_revenue_with_address", text, address_json, revenue),
    )


demo = Demo(
    title="Orders and revenue by location",
    topology=topology,
    config=config,
    messages=messages,
    keys=("location", "type"),
    columns=("city", "orders", "revenue"),
    results=(*results("general", GENERAL), *results("restaurant", RESTAURANT)),
    routers=(router,),
    stores=tuple(f"{name}_{what}" for what in ("revenue", "revenue_windows") for name in (GENERAL, RESTAURANT)),
)
