"""Builds the documentation site with Sphinx: `make docs`. Nothing is loaded from another host."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "onthedot"
version = release = version_of("onthedot")
extensions = ["myst_parser", "reference_pages"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_url_schemes = ("http", "https", "mailto")

html_theme = "furo"
html_title = f"onthedot {version}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"source_directory": "docs/"}

highlight_language = "none"
