"""The node autoscaler: adds nodes for pods and Buffers that do not fit, and removes nodes that are not needed.

`core.nodes` decides. This package watches the cluster, calls the provider, and executes plans.
"""
