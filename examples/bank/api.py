"""The bank's own endpoints, on every instance."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query

from headrace.fastapi import AsyncStore, Demands, Service, service, store

from .pipeline import BALANCES, is_overdraft
from .transactions import NotTaken, Transactions

router = APIRouter(tags=["bank"])

LARGEST = 10**12
AccountId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Amount = Annotated[int, Query(ge=-LARGEST, le=LARGEST, description="Negative to pay out; not 0.")]
Local = Annotated[bool, Query(description="Only what this instance has itself.")]
Balances = Annotated[AsyncStore, store(BALANCES)]
Bank = Annotated[Service, service()]
Answer = dict[str, str | int]

_transactions: dict[str, Transactions] = {}
"""By Kafka: one producer is enough for all requests."""


@router.post("/account/{id}", status_code=202, summary="Pay in, or out with a negative amount")
async def pay(id: AccountId, amount: Amount, balances: Balances, bank: Bank) -> Answer:
    """Puts a transaction into the topic; the balance follows with the next batch."""
    if amount == 0:
        raise HTTPException(400, "An amount is at least 1 to pay in, or at most -1 to pay out, not 0.")
    if amount < 0:
        balance = await balances.get(id) or 0
        if is_overdraft(balance, amount):
            raise HTTPException(409, f"Account {id} has {balance}: {-amount} cannot be paid out.")
    try:
        await asyncio.to_thread(_transactions_of(bank).send, id, amount)
    except NotTaken as error:
        raise HTTPException(503, f"Kafka has not confirmed the transaction: {error}.") from None
    return {"account": id, "amount": amount}


@router.get("/account/{id}", summary="The balance of an account")
async def balance(id: AccountId, balances: Balances, bank: Bank, local: Local = False) -> Answer:
    """The balance, from whichever instance has it; with `local`, from this one alone."""
    if local:
        owner = bank.metadata_for_key(BALANCES, id)
        if f"{owner.host}:{owner.port}" != bank.instance.address:
            raise HTTPException(404, f"Account {id} is on {owner.host}:{owner.port}.")
        balances = balances.demanding(Demands(local=True))
    found = await balances.get(id)
    if found is None:
        raise HTTPException(404, f"There is no account {id}.")
    return {"account": id, "balance": found}


@router.get("/accounts", summary="All balances, gathered from all instances")
async def accounts(balances: Balances) -> list[Answer]:
    """Every account with its balance, in the order of their names."""
    return [{"account": id, "balance": found} async for id, found in balances.all()]


def _transactions_of(bank: Service) -> Transactions:
    settings = bank.client_settings
    if settings.bootstrap_servers not in _transactions:
        _transactions[settings.bootstrap_servers] = Transactions(settings)
    return _transactions[settings.bootstrap_servers]
