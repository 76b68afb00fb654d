"""The store of a foreign-key join: which rows of the left table ask for which row of the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.serdes import Serde, Serdes
from headrace.serdes.forms.foreign_key import Subscription, pack_subscription, unpack_subscription
from headrace.state.environment import StoreEnvironment
from headrace.state.key_value import TimestampedKeyValueStore
from headrace.state.port import OrderedStore
from headrace.state.store import serde_of
from headrace.topology.stores import StoreSpec


class SubscriptionStore(TimestampedKeyValueStore):
    """Subscriptions with timestamps by combined key, which is given as bytes.

    The spec's value serde is that of `Subscription`; where it has none, its key serde is that of the
    primary key within.
    """

    __slots__ = ()

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        value = spec.value
        if value is None:
            value = _subscription_serde(serde_of(spec, spec.key, "primary key"))
        super().__init__(replace(spec, key=Serdes.bytes(), value=value), ordered, environment)


def _subscription_serde(primary_key: Serde[Any]) -> Serde[Subscription]:
    serialize_key: Callable[[Any], bytes] = primary_key.serialize
    deserialize_key: Callable[[bytes], Any] = primary_key.deserialize

    def serialize(subscription: Subscription) -> bytes:
        partition = subscription.primary_partition
        return pack_subscription(
            subscription.hash,
            subscription.instruction,
            serialize_key(subscription.primary_key),
            0 if partition is None else partition,
        )

    def deserialize(data: bytes) -> Subscription:
        subscription = unpack_subscription(data)
        return subscription._replace(primary_key=deserialize_key(subscription.primary_key))

    return Serde(serialize, deserialize, "subscription")
