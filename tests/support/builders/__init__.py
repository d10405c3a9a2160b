"""Objects, clusters and results for tests."""
