"""The cluster as the node autoscaler sees it: nodes, pods, node groups, upcoming nodes, and a simulation on top."""
