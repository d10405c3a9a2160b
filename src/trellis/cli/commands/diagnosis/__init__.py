"""Commands that judge a cluster: its components, its configuration, and the waste of its workloads."""
