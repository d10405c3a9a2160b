"""Decaying histograms of usage, with upstream's bins and arithmetic, for all rows of a resource at once."""
