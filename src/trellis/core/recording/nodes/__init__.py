"""Recordings of the node autoscaler, and of the Buffer controller's headroom."""
