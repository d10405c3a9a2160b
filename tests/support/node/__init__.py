"""Builders and waits of tests on a real node."""
