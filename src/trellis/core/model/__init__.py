"""Who governs which pods: targets and what they select, owners, and what pods tell of themselves.

`targets` is the one home of "which autoscaler governs this pod": the recommender asks it for whole namespaces,
admission and the updater for one pod. Nothing here knows where objects come from or what is done with the answer.
"""
