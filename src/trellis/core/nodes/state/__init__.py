"""The cluster as the node autoscaler sees it: nodes, pods and chunks, readiness, and a simulation with new nodes."""
