"""What is known of a cluster: objects by key, their owners, who governs a pod, and patches to pods.

`governance` is the one place that decides which autoscaler governs a pod: the recommender calls it for whole
namespaces, admission and the updater for one pod. Nothing here knows where objects come from or what is done with the
answer.
"""
