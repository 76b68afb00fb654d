"""Compiled tasks: the operators' own source, put together to one function for each way into a sub-topology."""
