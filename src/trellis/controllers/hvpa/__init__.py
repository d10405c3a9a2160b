"""The Hvpa controller: watches Hvpas and what they are about, asks `core.hvpa.plan` what to do, does it, and tells it.

Nothing here decides about counts and sizes. What is known is gathered into a view, the plan's actions go through the
writer, its size goes into the status, and what became of it is remembered for the next plan.
"""
