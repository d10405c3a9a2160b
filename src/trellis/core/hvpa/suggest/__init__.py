"""Proposes buckets for a workload from its history, with reasons and with what they would have cost.

`suggest` is the one entry point. It proposes a whole Hvpa as a manifest; its cost is what the rules of
`trellis.core.hvpa` make of it over the same history.
"""
