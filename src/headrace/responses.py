"""What an application's handler of last resort can answer."""

from __future__ import annotations

from enum import Enum


class ExceptionResponse(Enum):
    """What to do about an exception that no other handler took."""

    REPLACE_THREAD = "REPLACE_THREAD"
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"


REPLACE_THREAD = ExceptionResponse.REPLACE_THREAD
"""Starts the pipeline again."""
SHUTDOWN_CLIENT = ExceptionResponse.SHUTDOWN_CLIENT
"""Ends this instance."""
SHUTDOWN_APPLICATION = ExceptionResponse.SHUTDOWN_APPLICATION
"""Ends all instances."""
