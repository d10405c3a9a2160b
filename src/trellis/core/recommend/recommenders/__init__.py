"""The recommenders that come with Trellis.

They know the protocol and `forecast`, not one another: what one falls back to, or chooses from, is given to it by
`trellis.core.recommend.registry`.
"""
