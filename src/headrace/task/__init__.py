"""A task: one part of a topology over its records, its stores and its clock."""
