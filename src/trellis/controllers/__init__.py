"""The live components: each builds a view of the cluster, calls one function of the core and hands over the actions.

Controllers never import one another, and nothing here decides: a branch that mentions a mode, a threshold or a reason
belongs in the core.
"""
