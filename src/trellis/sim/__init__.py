"""The simulator: the decisions of the core, run against a model of a cluster on virtual time.

Nothing here decides about sizes, boosts, evictions or resizes: the core decides, as it does in a cluster. Modelled is
everything else: nodes, a scheduler, kubelets, controllers that make pods, and demand. The simulator cannot reach a
cluster, reads no clock, and draws its randomness from a seed.

`scenario` and `dump` build a `fleet`; `run` simulates it, with `cluster` as the model and `components` around the core;
`scores` and `results` are what comes of it. `backtest` replays recorded usage without a cluster, and `replay` the
recordings of controllers.
"""
