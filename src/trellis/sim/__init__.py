"""What would have happened? The decisions of the core, played against a model of a cluster on virtual time.

Nothing here decides about sizes, boosts, evictions or resizes: whatever is decided, the core decides it, as it does in
a cluster. What is modelled is everything else: nodes, a scheduler, kubelets, controllers that make pods, and demand. It
cannot reach a cluster, reads no clock, and draws its randomness from a seed.
"""
