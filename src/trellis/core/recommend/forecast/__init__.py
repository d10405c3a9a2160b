"""Forecasts of usage from hourly history, from cycles and growth of memory, and from the phases of earlier runs."""
