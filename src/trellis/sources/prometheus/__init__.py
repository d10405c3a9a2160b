"""Reads the usage of containers from Prometheus or whatever speaks its HTTP API.

`queries` builds PromQL and `responses` reads what comes back, both without I/O; `client` moves the bytes. `history`
reads days at start, oldest first and a bounded window at a time; `live_usage` reads the newest samples; `labels`
reads which labels series and past pods had.

Nothing here asks once per container, and nothing holds more than one window of the history in memory.
"""
