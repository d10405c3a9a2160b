"""Replicas of a component: which of them are live, which one leads, and which namespaces each of them serves.

Replicas know one another by their member Leases, and agree on everything else by that alone. What a replica may do is
decided by Leases that it holds; nothing here compares clocks.
"""
