"""Collects facts from the API server. What cannot be read is a fact too, and ends nothing."""
