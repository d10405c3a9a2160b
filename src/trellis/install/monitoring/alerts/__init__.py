"""Alerts: those of any component, those of sizes of pods, and those of capacity."""
