"""What `headrace demo bank` runs and shows."""

from __future__ import annotations

from headrace.cli.examples import Demo, Result

from .api import router
from .generator import messages
from .pipeline import BALANCES, PARTITIONS, RESULTS, account, amount, config, topology

demo = Demo(
    title="The balances of a bank",
    topology=topology,
    config=config,
    messages=messages,
    keys=("account",),
    columns=("balance",),
    results=(Result(RESULTS, account, amount, lambda id, balance: {"account": id, "balance": f"{balance:,}"}),),
    partitions=PARTITIONS,
    routers=(router,),
    stores=(BALANCES,),
)
