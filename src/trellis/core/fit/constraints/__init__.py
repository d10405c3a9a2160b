"""What keeps a pod from a node besides resources: affinity, topology spread, taints, volumes and host ports."""
