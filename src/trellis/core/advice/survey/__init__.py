"""Surveys: which workloads there are, what they request, what they used, and what a recommender estimates for them."""
