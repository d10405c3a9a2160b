"""What the updater knows of each workload and remembers from one plan to the next."""
