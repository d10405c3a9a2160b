"""The report of a backtest: terminal text, HTML page, JSON and CSV."""
