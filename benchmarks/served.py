"""Applications whose stores are asked. Their changelogs are written directly, so that nothing has to run them."""

from __future__ import annotations

from benchmarks.contenders.topologies import totals

STORE = "totals"

reads = totals("service-reads-in", "service-reads-out")
restore = totals("service-restore-in", "service-restore-out")
