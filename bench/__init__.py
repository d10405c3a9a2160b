"""Measurements of what Trellis promises about time and memory: `python -m bench`.

Each module takes one measurement, against a peer in the same run where there is one, because a ratio
carries over from one machine to another and a number of seconds does not. Measurements of whole processes
run in children, so that none inherits the memory or the imports of another. Nothing is written outside a
temporary directory.
"""
