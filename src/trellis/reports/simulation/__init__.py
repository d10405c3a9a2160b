"""The report of a simulation: terminal text, HTML page, JSON and CSV."""
