"""What each container should request: recommenders, and all that surrounds every one of them.

A recommender is asked through `protocol` and answers in columns; `pipeline` does the rest for all containers at once:
rounding, capping by policy, and which VerticalPodAutoscalers need a new status and why. `capping` is the one home of
how a recommendation is bounded, for a status as for one pod. Nothing here knows where usage comes from or who writes a
status.
"""
