"""Fit, packing and the node autoscaler."""
