"""Validation rules over several fields of an object, one module per kind.

A rule names the fields it reads and runs only where all of them are sound. Where CEL can express it, the rule carries
the expression, and the CRD gets it.
"""
