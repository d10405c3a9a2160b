"""Series of usage over weeks, in cores and bytes, from files or from Prometheus.

`files` finds out what can be read on its own, so that several processes can share it, and reads that. A file is
CSV, as it is or compressed, or Parquet; columns are known by their names. What cannot be used is refused with file,
row and column, and never costs another series.
"""
