"""What the recommender knows between passes: the cluster's objects, and every VPA it serves, in columns.

Modules here do not import `publish` nor the modules of a pass, which read this state.
"""
