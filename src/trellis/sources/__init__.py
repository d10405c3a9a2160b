"""Sources of usage samples and of cluster state. Each reads one kind of server or file into the same columns.

`metrics_api` asks metrics.k8s.io, `external_metrics` asks external.metrics.k8s.io, `prometheus` asks Prometheus,
for history as well as for live usage; `series` reads files. Samples are `Samples` of `core.usage`, with a count of
what could not be read: one malformed entry never costs another one.

`cluster` collects objects beside usage: all that decides about sizes in a cluster, as lines of a dump. `survey` finds
workloads and what they used, for `trellis recommend`.

A source decides nothing: it does not know which pods matter, keeps no samples, drops none for their value, and
writes nothing. It does not block the event loop either: long responses are decoded in a thread, part by part.
"""
