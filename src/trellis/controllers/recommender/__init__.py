"""The recommender: watches pods and their usage, and writes into each VPA it serves what its containers should have.

It decides nothing itself: `core.model` says whose pods are whose, `core.usage` remembers, `core.recommend` estimates.
"""
