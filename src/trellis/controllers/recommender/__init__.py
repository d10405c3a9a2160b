"""The recommender: watches pods and their usage, and writes recommendations into the status of the VPAs it serves.

It decides nothing itself: `core.cluster` finds the VPA of a pod, `core.usage` aggregates usage, `core.recommend`
recommends.
"""
