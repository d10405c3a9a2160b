"""Where do samples of usage come from? Each source asks somebody, and answers with the same columns.

`metrics_api` asks metrics.k8s.io, `external_metrics` asks external.metrics.k8s.io, `prometheus` asks Prometheus, for
what has been as well as for what is. What they return is `core.usage.samples.Samples` and a count of what could not be
read: one entry that makes no sense never costs another one.

`cluster` collects objects beside usage: all that decides about sizes in a cluster, as lines of a dump.

A source decides nothing: it does not know which pods matter, keeps no samples, drops none for their value, and writes
nothing anywhere. It does not wait on the event loop for arithmetic either: long answers are read in a thread, piece by
piece.
"""
