"""The public kit for tests: generators of objects and of usage, and conformance suites for recommenders and providers.

It is for Trellis itself and for those who extend it; production code never imports it. `objects` and `usage` need
Hypothesis, and what makes tests of the suite needs pytest: both are in the extra `testing`.
"""
