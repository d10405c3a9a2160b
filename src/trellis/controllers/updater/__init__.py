"""The updater: watches pods and what sizes them, asks `core.resize.plan` what to do, does it, and tells what it did.

Nothing here decides about a pod. What is known is gathered into a view, the plan is made in a thread, its actions go
through the writer, and what became of them is remembered for the next plan.
"""
