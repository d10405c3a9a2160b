"""Several replicas of one process or component."""
