"""Recommended requests of containers: recommenders, and the pass that surrounds every one of them.

`protocol` is what a recommender implements, `registry` lists those that come with Trellis, `engine` is the whole
recommender without its I/O. `recommendation_pass` is one pass over all containers: recommenders estimate in columns
(`estimation`), their output is validated, rounded and capped (`validation`, `post_processing`), and `publish`
decides which VerticalPodAutoscalers need a new status. `capping` bounds a recommendation, for a status as for one
pod. Nothing here depends on the source of usage or on the writer of a status.
"""
