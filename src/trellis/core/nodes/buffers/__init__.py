"""Buffers on nodes: the headroom they find, how well they serve, and the status that follows."""
