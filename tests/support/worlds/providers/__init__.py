"""Providers of nodes with a world in memory, for the conformance suite and for controllers."""
