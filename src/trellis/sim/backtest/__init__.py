"""What would recommenders have requested for usage that was recorded? Replays in columns, scored; no model cluster."""
