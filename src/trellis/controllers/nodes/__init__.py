"""Which nodes does a cluster have? It orders those that pods and Buffers lack, and gives back those that nobody needs.

What is decided is `core.nodes`. Here the cluster is watched, providers are asked, and plans are carried out.
"""
