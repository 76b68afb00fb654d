"""The same words with the cache on and off, and with a short and a long commit interval.

A cache keeps the latest update of each key until the next commit, and only that one goes on.
"""

from __future__ import annotations

from datetime import timedelta

from headrace import StreamsConfig

short, long = timedelta(milliseconds=100), timedelta(seconds=30)

SETTINGS: dict[str, StreamsConfig] = {
    "cache on, short interval": StreamsConfig(application_id="words", commit_interval=short),
    "cache on, long interval": StreamsConfig(application_id="words", commit_interval=long),
    "cache off, short interval": StreamsConfig(application_id="words", commit_interval=short, cache_max_bytes=0),
    "cache off, long interval": StreamsConfig(application_id="words", commit_interval=long, cache_max_bytes=0),
}
