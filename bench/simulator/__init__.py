"""Backtests and closed loops."""
