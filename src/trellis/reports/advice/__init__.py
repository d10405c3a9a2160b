"""The report of `trellis recommend`: requests advised for workloads, in every output format."""
