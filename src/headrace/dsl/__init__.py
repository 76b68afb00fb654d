"""What users write: builder, streams, tables, groups, windows and their options. It draws a graph and never runs."""
