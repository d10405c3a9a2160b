"""Which nodes are unneeded, and how they are removed: taint, drain, release."""
