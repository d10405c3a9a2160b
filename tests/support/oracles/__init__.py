"""Slow, obvious implementations that decisions are compared with."""
