"""Usage over time, for recommenders that look for rhythms and phases: hourly summaries, long peaks, runs."""
