"""Machines that Karpenter launches: groups that a ConfigMap declares, and a standalone NodeClaim for each node.

Pure functions from objects to states and actions: the package reads and writes no cluster and has no clock.
"""
