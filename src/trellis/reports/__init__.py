"""Results and verdicts in, text out: tables, pages, machine-readable reports, plain sentences.

Nothing here decides, reads files or talks to a cluster. Text is readable without colour; colour is an addition.
"""
