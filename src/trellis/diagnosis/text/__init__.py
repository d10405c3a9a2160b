"""Formats status, diagnosis and waste for a terminal and for scripts."""
