"""Constraints on the nodes of a pod besides resources: affinity, topology spread, taints and volumes."""
