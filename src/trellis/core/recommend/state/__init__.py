"""The state of the recommender between passes: the cluster's objects, and every served VPA, in columns.

Modules here do not import `publish` nor the modules of a pass, which read this state.
"""
