"""Surveys of workloads: their requests, their usage, and a recommender's estimates."""
