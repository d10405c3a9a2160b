"""Dashboards: a fleet overview, and one for each component."""
