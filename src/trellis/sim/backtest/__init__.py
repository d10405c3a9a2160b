"""Backtests of recommenders on recorded usage: replays in columns, scored, without a model cluster."""
