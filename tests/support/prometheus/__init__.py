"""A Prometheus in memory."""
