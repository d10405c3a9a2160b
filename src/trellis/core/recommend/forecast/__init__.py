"""Forecasts of usage from hourly history, from cycles and growth of memory, and alignment of runs by their phases."""
