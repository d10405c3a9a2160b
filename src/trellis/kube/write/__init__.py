"""Writes to the cluster: actions as data, the one writer that executes them, and their results."""
