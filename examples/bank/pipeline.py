"""Transactions add up to balances."""

from __future__ import annotations

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology

TRANSACTIONS = "bank-transactions-3-partitions"
RESULTS = "bank-balances"
PARTITIONS = 3
BALANCES = "balances"

account = Serdes.string()
amount = Serdes.long()

config = StreamsConfig(application_id="bank", num_standby_replicas=1)


def topology() -> Topology:
    """The application."""
    builder = StreamsBuilder()
    define(builder)
    return builder.build()


def define(builder: StreamsBuilder) -> None:
    """Draws the topology: the amounts of each account, summed up in the store `balances`."""
    transactions = builder.stream(TRANSACTIONS, Consumed(account, amount))
    balances = transactions.group_by_key(Grouped(account, amount)).aggregate(
        lambda: 0,
        lambda id, change, balance: balance if is_overdraft(balance, change) else balance + change,
        Materialized(BALANCES, key=account, value=amount),
    )
    balances.to_stream().to(RESULTS, Produced(account, amount))


def is_overdraft(balance: int, change: int) -> bool:
    """Whether more would be paid out than there is."""
    return change < 0 and balance + change < 0
