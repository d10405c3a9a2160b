"""An API server in memory, behind the fake transport."""
