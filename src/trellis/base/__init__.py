"""Values that everything else is written in: quantities, durations, times, selectors, schedules, errors, reasons.

Each module is one small value with exact rules, as the API server has them. This package imports nothing of Trellis,
reads no clock, touches no file and knows no Kubernetes kind.
"""
