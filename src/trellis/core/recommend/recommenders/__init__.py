"""The recommenders that come with Trellis.

They depend on the protocol and on `forecast`, not on one another: `trellis.core.recommend.registry` passes fallbacks
and candidates to them.
"""
