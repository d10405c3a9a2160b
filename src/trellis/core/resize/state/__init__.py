"""State of the updater by workload: the cluster cache with its indexes, headroom, and earlier attempts."""
