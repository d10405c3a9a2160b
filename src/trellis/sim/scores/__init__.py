"""Scores of one simulated variant: sums of the scored time, charts of all of it, marks and counts."""
