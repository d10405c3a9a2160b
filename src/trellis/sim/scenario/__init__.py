"""Compiles a scenario, a file that people write, into the fleet that is simulated."""
