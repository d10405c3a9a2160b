"""Admission reviews: cost, rate and latency."""
