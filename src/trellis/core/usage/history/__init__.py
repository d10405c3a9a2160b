"""Usage over time, for recommenders of rhythms and phases: hourly summaries, long peaks, runs."""
