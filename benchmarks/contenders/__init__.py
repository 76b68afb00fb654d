"""Those that are compared: each a process that runs a workload, and how it is started."""
