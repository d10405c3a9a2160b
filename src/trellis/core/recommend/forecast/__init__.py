"""Forecasts of usage from hourly history, from cycles and growth of memory, and the alignment of runs by their phases."""
