"""The public kit for tests: generators of objects, for Trellis itself and for those who extend it.

Production code never imports it. It needs the extra `testing` (Hypothesis).
"""
