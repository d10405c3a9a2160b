"""What did containers use, according to Prometheus or whatever speaks its HTTP API?

`queries` says what is asked and `answers` what came back, both without I/O; `client` moves the bytes. `history` reads
days at start, oldest first and a bounded piece at a time; `live` reads what is newest; `pod_labels` reads which labels
pods had that may be gone by now.

Nothing here asks once per container, and nothing keeps more than one piece of the history in memory.
"""
