"""Finds the user's own line: the innermost one outside the package."""

from __future__ import annotations

import os
import sys
from types import FrameType

from headrace.topology.nodes import Location

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def caller_location() -> Location | None:
    """The line of the user's code that led here."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_PACKAGE):
            return Location(filename, frame.f_lineno)
        frame = frame.f_back
    return None
