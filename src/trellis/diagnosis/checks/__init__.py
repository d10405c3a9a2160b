"""Checks: each takes the facts of one area and returns findings. No I/O, no clock: the time is one of the facts."""
