"""Changelogs keep everything while the times of their stores lag behind the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.kafka.topics import ADDITIONAL_RETENTION_MS
from headrace.spark.commit_record import TaskState
from headrace.spark.retention import ChangelogRetention
from headrace.state.metadata import STREAM_TIME
from headrace.topology.stores import StoreKind, StoreSpec

NOW = 1_700_000_000_000
LONG_AGO = NOW - 10 * ADDITIONAL_RETENTION_MS
STORES = (
    StoreSpec("windows", StoreKind.TIMESTAMPED_WINDOW, retention_ms=60_000),
    StoreSpec("versions", StoreKind.VERSIONED, retention_ms=60_000),
    StoreSpec("table", StoreKind.TIMESTAMPED_KEY_VALUE),
)
CHANGELOGS = {spec.name: f"app-{spec.name}-changelog" for spec in STORES}
USUAL = str(60_000 + ADDITIONAL_RETENTION_MS)


class Settings:
    """Topics with settings, as far as these are looked at and changed."""

    def __init__(self) -> None:
        self.of = {
            CHANGELOGS["windows"]: {"retention.ms": USUAL},
            CHANGELOGS["versions"]: {"min.compaction.lag.ms": USUAL},
        }

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        return {name: dict(self.of[name]) for name in names}

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        self.of[name].update(configs)


def state(**times: int) -> TaskState:
    return TaskState(facts={store: {STREAM_TIME: time.to_bytes(8, "big")} for store, time in times.items()})


def retention(topics: Settings, states: Mapping[str, TaskState]) -> ChangelogRetention:
    made = ChangelogRetention(topics, CHANGELOGS, STORES)  # type: ignore[arg-type]
    made.begin(states, NOW)
    return made


def test_windows_and_versions_of_old_times_are_kept_until_all_tasks_have_caught_up() -> None:
    topics = Settings()
    follower = retention(topics, {})
    follower.follow({"0_0": state(windows=NOW), "0_1": state(windows=LONG_AGO, versions=LONG_AGO)}, NOW)
    kept = {
        CHANGELOGS["windows"]: {"retention.ms": "-1"},
        CHANGELOGS["versions"]: {"min.compaction.lag.ms": str(2**63 - 1)},
    }
    assert topics.of == kept
    follower.follow({"0_0": state(windows=NOW)}, NOW)
    assert topics.of == kept, "the other task still lags behind"
    follower.follow({"0_1": state(windows=NOW, versions=NOW)}, NOW)
    assert topics.of == Settings().of


def test_a_new_process_knows_which_tasks_lag_behind() -> None:
    topics = Settings()
    before = {"0_0": state(windows=LONG_AGO), "0_1": state(windows=NOW)}
    retention(topics, before)
    assert topics.of[CHANGELOGS["windows"]] == {"retention.ms": "-1"}
    follower = retention(topics, before)
    follower.follow({"0_1": state(windows=NOW)}, NOW)
    assert topics.of[CHANGELOGS["windows"]] == {"retention.ms": "-1"}
    follower.follow({"0_0": state(windows=NOW)}, NOW)
    assert topics.of[CHANGELOGS["windows"]] == {"retention.ms": USUAL}
