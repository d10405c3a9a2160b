"""Worlds: models of small clusters that execute decisions, on virtual time."""
