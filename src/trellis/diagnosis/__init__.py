"""Diagnosis of an installation: facts about a cluster in, findings with their reasons and remedies out.

`collection` reads facts by the client and changes nothing. `checks` judge them: pure functions, one module for each
area. `status`, `doctor` and `top` put both together; `text` formats the results. A finding is a value, so that a
command, a page and a script show the same list.
"""
