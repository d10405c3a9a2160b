"""Settings of Sphinx for `make site`: <https://www.sphinx-doc.org/en/master/usage/configuration.html>.

The source directory is the root of the repository, so that every relative link means on the site what it means on a
code host. Nothing here may need the network: the theme brings its fonts and scripts along or does without.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs_site.navigation import HOME

project = "Trellis"
html_title = "Trellis documentation"
extensions = [
    "myst_parser",
    "docs_site.navigation",
    "docs_site.repository_files",
    "docs_site.page_texts",
    "docs_site.reason_anchors",
]

root_doc = HOME
include_patterns = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/**.md", "examples/**.md"]
# Without these Sphinx walks through all that is installed and kept in the checkout.
exclude_patterns = [".*", "bench", "build", "dist", "src", "testbed", "tests", "tools"]

# Pages are Markdown as code hosts read it: what else MyST knows would change them silently.
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]
myst_heading_anchors = 6

html_theme = "furo"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1a6b3c", "color-brand-content": "#0a5cc2"},
    "dark_css_variables": {"color-brand-primary": "#5fc088", "color-brand-content": "#6cb0ff"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js", "pictures.js"]
html_copy_source = False
html_show_copyright = False
html_permalinks_icon = "#"
html_use_index = False
# Browsers refuse what Sphinx fetches for these to a site without a server; `search_summaries.js` shows its own.
html_show_search_summary = False
