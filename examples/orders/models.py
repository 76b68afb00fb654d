"""What orders, stores and totals look like; in JSON the names are camelCase, and amounts are text: "12.50".

An object checks itself when it is made, so JSON that breaks a rule is not even read.
"""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum

import msgspec

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ZERO = Decimal("0.00")
HIGHEST = Decimal("999999999.99")


def check_amount(amount: Decimal) -> None:
    """Raises ValueError for what is not an amount of money: whole cents, not below zero, below a billion."""
    if not amount.is_finite() or not ZERO <= amount <= HIGHEST:
        raise ValueError(f"an amount must be from {ZERO} to {HIGHEST}, not {amount}")
    if amount != round(amount, 2):
        raise ValueError(f"an amount has at most two decimals, not {amount}")


class Model(msgspec.Struct, frozen=True, rename="camel"):
    """Fields that cannot be changed, with camelCase names in JSON."""


class OrderType(str, Enum):
    """What kind of business an order is."""

    GENERAL = "GENERAL"
    RESTAURANT = "RESTAURANT"


class OrderLineItem(Model, frozen=True):
    """So many of one thing, and what they cost together."""

    item: str
    count: int
    amount: Decimal

    def __post_init__(self) -> None:
        check_amount(self.amount)


class Order(Model, frozen=True):
    """What a customer bought at a location."""

    order_id: int
    location_id: str
    final_amount: Decimal
    order_type: OrderType
    order_line_items: list[OrderLineItem]
    ordered_date_time: datetime
    """UTC where it does not say."""

    def __post_init__(self) -> None:
        if not self.location_id.strip():
            raise ValueError("an order needs a location")
        check_amount(self.final_amount)
        if self.made_at < EPOCH:  # Kafka has no times before it
            raise ValueError(f"an order cannot be made before 1970, as at {self.ordered_date_time}")

    @property
    def made_at(self) -> datetime:
        """When it was made, with its time zone."""
        when = self.ordered_date_time
        return when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)


class Address(Model, frozen=True):
    """Where a store is."""

    address_line1: str
    address_line2: str
    city: str
    state: str
    zip: str


class Store(Model, frozen=True):
    """The store at a location."""

    location_id: str
    address: Address
    contact_num: str


class Revenue(Model, frozen=True):
    """What one order brings in."""

    location_id: str
    final_amount: Decimal

    @classmethod
    def of(cls, order: Order) -> Revenue:
        """The revenue of an order."""
        return cls(order.location_id, order.final_amount)


class TotalRevenue(Model, frozen=True):
    """What the orders of a location add up to."""

    location_id: str = ""
    running_order_count: int = 0
    running_revenue: Decimal = ZERO


class TotalRevenueWithAddress(Model, frozen=True):
    """The same, with the store it was made in."""

    total_revenue: TotalRevenue
    store: Store
