"""Turns results and decisions into text: tables, pages, machine-readable reports, sentences.

Nothing here decides, reads files or talks to a cluster. Text is readable without colour; colour is an addition.
One folder per report, each with the same files: `report` (entry point, formats for programs), `text` (terminal and
Markdown), `page` (HTML), `wording` or `headline` (sentences), `measures`.
"""
