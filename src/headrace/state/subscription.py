"""The store of a foreign-key join: which rows of the left table ask for which row of the right one."""

from __future__ import annotations

from headrace.state.key_value import TimestampedKeyValueStore


class SubscriptionStore(TimestampedKeyValueStore):
    """Subscriptions with timestamps by combined key, which is given as bytes.

    The subscribers of a foreign row are those with its prefix.
    """

    __slots__ = ()
