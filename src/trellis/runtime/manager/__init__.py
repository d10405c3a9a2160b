"""Several components in one process: their settings, and a supervisor that restarts each of them alone."""
