"""The public kit for tests: strategies for objects and usage, and conformance suites for plug-ins.

It is for Trellis itself and for those who extend it; production code never imports it. `objects` and `usage` need
Hypothesis, and what makes tests of a suite needs pytest: both are in the extra `testing`.
"""
