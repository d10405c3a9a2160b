"""Controllers with an API server in memory, on a virtual clock."""
