"""Builds the fleet that is simulated from the dump of a cluster."""
