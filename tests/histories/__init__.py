"""Whether answers of several instances are right while instances die: every read is recorded, then checked."""
