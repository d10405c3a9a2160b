"""Manifests as trees in which some parts depend on values, evaluated in Python or printed as templates for Helm."""
