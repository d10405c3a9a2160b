"""Total demand of a workload, as its HPA, its VPA and writes to its scale state it, stabilized over time."""
