"""Six controllers of one shape: recommender, updater, admission, hvpa, buffers and nodes.

Each has the same files, in the order of reading: `process` (composition), `settings`, `informers`, `transforms`,
`state`, `reconcile`, `executor`, `status`, `events`, `metrics`, `recording`; a controller leaves out what it does not
need. Nothing here decides: a controller watches, builds the view that the core decides on, executes the decision and
reports it.
"""
