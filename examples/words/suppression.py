"""Counts of windows that are held back: until the window closes, or until a time limit."""

from __future__ import annotations

from headrace import BufferConfig, StreamsBuilder, Suppressed

from .aggregations import by_letter
from .tables import stream
from .windows import FIVE_SECONDS, count, write

UNTIL_WINDOW_CLOSES: dict[str, Suppressed] = {
    "unbounded": Suppressed.until_window_closes(BufferConfig.unbounded()),
    "2 records, then stop": Suppressed.until_window_closes(BufferConfig.max_records(2).shut_down_when_full()),
    "150 bytes, then stop": Suppressed.until_window_closes(BufferConfig.max_bytes(150).shut_down_when_full()),
}
"""One result for each window, when no record can change it any more. Nothing can be let out before."""

UNTIL_TIME_LIMIT: dict[str, Suppressed] = {
    "unbounded": Suppressed.until_time_limit(FIVE_SECONDS, BufferConfig.unbounded()),
    "2 records, then early": Suppressed.until_time_limit(
        FIVE_SECONDS, BufferConfig.max_records(2).emit_early_when_full()
    ),
    "150 bytes, then early": Suppressed.until_time_limit(
        FIVE_SECONDS, BufferConfig.max_bytes(150).emit_early_when_full()
    ),
    "2 records, then stop": Suppressed.until_time_limit(
        FIVE_SECONDS, BufferConfig.max_records(2).shut_down_when_full()
    ),
    "150 bytes, then stop": Suppressed.until_time_limit(
        FIVE_SECONDS, BufferConfig.max_bytes(150).shut_down_when_full()
    ),
}
"""At most one result of each window in five seconds. A full buffer lets the oldest go early, or stops."""


def define(builder: StreamsBuilder, suppressed: Suppressed) -> None:
    """Draws the topology: words counted in windows of five seconds, the counts held back."""
    write(count(by_letter(stream(builder))).suppress(suppressed))
