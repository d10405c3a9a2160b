"""Recommenders of other packages: found by entry points, each run in a worker process.

A worker has a deadline and a memory limit.
"""
