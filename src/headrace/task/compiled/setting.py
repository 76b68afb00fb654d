"""When tasks are compiled."""

from __future__ import annotations

import os
from enum import Enum

VARIABLE = "HEADRACE_COMPILED"


class Compilation(Enum):
    """When a task's nodes are compiled. It changes nothing but the time that a record takes."""

    NEVER = "never"
    """Each node is a call: what the compiled form has to agree with."""
    WHEN_HOT = "when-hot"
    """Once it pays: writing the code takes as long as some thousand records."""
    ALWAYS = "always"
    """At the first record."""

    @classmethod
    def from_environment(cls) -> Compilation:
        """What the variable HEADRACE_COMPILED says, when-hot by default."""
        return cls(os.environ.get(VARIABLE, cls.WHEN_HOT.value))
