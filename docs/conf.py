"""Sphinx settings."""

import sys
from pathlib import Path

import uneven

sys.path.insert(0, str(Path(__file__).parent))

project = "uneven"
author = "the uneven developers"
copyright = "2026, the uneven developers"  # noqa: A001 (Sphinx's name)
release = uneven.__version__
extensions = [
    "executed",  # docs/executed.py: runs the blocks of each page
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "docstrings",  # docs/docstrings.py: attributes and properties
    "sphinx-mathjax-offline",  # after mathjax: formulas need no network
]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "uneven"
html_static_path = ["_static"]
html_use_index = False
html_domain_indices = False
html_css_files = ["wide.css"]
html_js_files = ["tables.js"]
exclude_patterns = ["_build", "_generated", "results"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes of many classes share names: no link targets for them
