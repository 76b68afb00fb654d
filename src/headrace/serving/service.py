"""The service of one instance: its copies, its router and its readers, as REST and Python programs use them."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from headrace.config import StreamsConfig
from headrace.kafka.clients import ClientSettings, redact
from headrace.presence import serving_directory
from headrace.serving.catalog import ServedStore, served_stores
from headrace.serving.config import ServingConfig
from headrace.serving.instance import Instance
from headrace.serving.metadata import InstanceMetadata, KeyMetadata, metadata_for_all, metadata_for_partition
from headrace.serving.peer_secret import shared_secret
from headrace.serving.peers import HttpPeers
from headrace.serving.reading import Reader
from headrace.serving.routing import Router
from headrace.serving.signing import PeerChecker
from headrace.serving.texts import Texts
from headrace.topology import Topology

_NUMBERS = count()
_HIDDEN = "[hidden]"
_KEY = re.compile(r"key|signature|sas\b", re.IGNORECASE)
"""Spark's settings hand on those of file systems, which call their secrets keys."""
_LOGIN = re.compile(r"//[^/@\s]+@")
"""User and password in an address."""


@dataclass(frozen=True)
class StoreTexts:
    """How a store's keys and values read in JSON."""

    key: Texts
    value: Texts

    @classmethod
    def of(cls, store: ServedStore) -> StoreTexts:
        """Those of the store's serdes."""
        key: Any = store.spec.key
        value: Any = store.spec.value
        return cls(Texts(key), Texts(value))

    def value_to_json(self, data: bytes) -> dict[str, Any]:
        """A value as a part of an answer; one that the serde cannot read is shown as what it is."""
        try:
            return {"value": self.value.read(data)}
        except Exception:
            return {"value": None, "unreadable": base64.b64encode(data).decode()}


@dataclass
class Service:
    """What an instance answers with."""

    application_id: str
    config: ServingConfig
    client_settings: ClientSettings
    instance: Instance
    peers: HttpPeers
    checker: PeerChecker
    """Tells whether a request comes from a peer."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The configuration as anybody may see it: without secrets."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Set when the instance is about to end: subscriptions end with it."""
    on_shutdown: Callable[[], None] = lambda: None
    """Called when another instance wants all to end."""

    def __post_init__(self) -> None:
        self.router = Router(self.instance, self.peers)
        self.reader = Reader(self.instance, self.router, self.config.max_answer_bytes)
        self.texts = {name: StoreTexts.of(store) for name, store in self.instance.stores.items()}

    def metadata_for_key(self, store: str, key: Any) -> KeyMetadata:
        """The instance that a key of a store belongs to."""
        serde: Any = self.reader.store(store).spec.key
        return metadata_for_partition(self.instance, store, self.router.partition_of(store, serde.serialize(key)))

    def metadata_for_all_instances(self) -> list[InstanceMetadata]:
        """Every instance with its partitions."""
        return metadata_for_all(self.instance)

    async def end_others(self) -> None:
        """Has all other instances end; those that do not answer are on their own."""
        others = [member.address for member in self.instance.view.members if member.address != self.instance.address]
        await asyncio.gather(*(self.peers.shutdown(address) for address in others), return_exceptions=True)

    @classmethod
    def of(
        cls,
        topology: Topology,
        config: StreamsConfig,
        serving: ServingConfig,
        client_settings: ClientSettings,
        state_dir: Path,
        *,
        address: str | None,
        **callbacks: Any,
    ) -> Service:
        """The service of an application's instance at an address; None: for this process alone."""
        assert config.application_id is not None
        application_id = config.application_id
        name = f"alone-{os.getpid()}-{next(_NUMBERS)}" if address is None else address.replace(":", "_")
        instance = Instance(
            served_stores(topology, config, application_id),
            client_settings,
            application_id,
            serving_directory(state_dir, application_id) / name,
            address=address,
            standbys=config.num_standby_replicas,
            **callbacks,
        )
        secret = serving.peer_secret
        if secret is None:
            secret = secrets.token_bytes()
            if address is not None:
                secret = shared_secret(client_settings, application_id, config.replication_factor)
        peers = HttpPeers(application_id, secret, serving.client_tls())
        checker = PeerChecker(secret, application_id, address or "")
        shown = shown_settings(config, client_settings)
        return cls(application_id, serving, client_settings, instance, peers, checker, shown)


def shown_settings(config: StreamsConfig, client_settings: ClientSettings) -> dict[str, Any]:
    """The settings that are no secret, nor a way to one."""
    return {
        "application_id": config.application_id,
        "bootstrap_servers": client_settings.bootstrap_servers,
        "processing_guarantee": config.processing_guarantee,
        "commit_interval_ms": config.commit_interval_ms,
        "cache_max_bytes": config.cache_max_bytes,
        "num_standby_replicas": config.num_standby_replicas,
        "num_stream_threads": config.num_stream_threads,
        "replication_factor": config.replication_factor,
        "application_server": config.application_server,
        "kafka": _shown(config.kafka),
        "spark": {name: _HIDDEN if _KEY.search(name) else value for name, value in _shown(config.spark).items()},
    }


def _shown(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: _LOGIN.sub(f"//{_HIDDEN}@", str(value)) for name, value in redact(settings).items()}
