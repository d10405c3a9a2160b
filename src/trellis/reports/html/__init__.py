"""HTML pages: one file that needs no network, reads without JavaScript and is safe whatever names it shows.

Style sheets and scripts lie beside the modules and are put into each page whole. Scripts only ever set text, never
markup, and a page's own policy forbids it to load anything.
"""
