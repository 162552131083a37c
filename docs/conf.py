"""Settings of the site: ``python -m sphinx -W --keep-going -b html docs build/site``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "_scripts")]

import gen_commands  # noqa: E402
import gen_mds  # noqa: E402

from placement_gym.version import VERSION  # noqa: E402

project = "placement_gym"
copyright = "2026, the placement_gym contributors"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", *gen_mds.FILES]

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"show-inheritance": False}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"
autodoc_mock_imports = [
    "highspy", "matplotlib", "networkx", "numba", "openvino", "pydantic", "pydantic_core", "rich",
    "safetensors", "sb3_contrib", "scipy", "stable_baselines3", "torch", "torch_geometric", "yaml",
]  # fmt: skip
"""What docstrings can be read without."""

html_theme = "furo"
html_title = f"placement_gym {VERSION}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

gen_mds.write_pages()


def read_source(app: Sphinx, page: str, source: list[str]) -> None:
    """Lead links to the files that generated pages show to these pages; fill in options."""
    text = gen_mds.link_views(gen_commands.fill_options(source[0]))
    source[0] = gen_mds.lead_links(text, Path(app.env.doc2path(page)), page)


def add_narrow_forms(app: Sphinx, page: nodes.document) -> None:
    """Add the narrow form of pictures that have one, NAME-narrow; the style shows one."""
    folder = Path(app.env.doc2path(app.env.docname)).parent
    for picture in list(page.findall(nodes.image)):
        narrow = picture["uri"].replace(".svg", "-narrow.svg")
        if narrow != picture["uri"] and (folder / narrow).exists():
            form = nodes.image(uri=narrow, alt=picture["alt"], classes=["narrow"])
            picture["classes"].append("wide")
            picture.parent.insert(picture.parent.index(picture) + 1, form)


WITHIN_NUMBER = re.compile(r"(?<=\d) (?=%)|(?<=±|/) (?=\.?\d)")
"""The spaces of 95 %, ± 0.015 and x/ 1.033, where no line is broken."""


def keep_words_whole(app: Sphinx, page: nodes.document) -> None:
    """Break no line within a number, or within a word of code that fits a telephone."""
    for text in list(page.findall(nodes.Text)):
        whole = WITHIN_NUMBER.sub("\N{NO-BREAK SPACE}", text)
        if whole != text and not isinstance(text.parent, (nodes.literal, nodes.FixedTextElement)):
            text.parent.replace(text, nodes.Text(whole))
    for code in page.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) <= 36:
            code["classes"].append("unbroken")


def leave_out_manual(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Leave out the Markdown of an environment's docstring, which is the environment page."""
    headings = [index for index, line in enumerate(lines) if line.startswith("## ")]
    if headings:
        end = lines.index("Args:")
        lines[headings[0] : end] = ["The pages of environments are its manual.", ""]
    fenced = False
    for index, line in enumerate(lines):
        if line.startswith("```"):
            fenced = not fenced
            lines[index] = ".. code-block:: python\n" if fenced else ""
        elif fenced:
            lines[index] = f"    {line}"
    lines[:] = "\n".join(lines).split("\n")


def write_explorable(app: Sphinx, error: Exception | None) -> None:
    """Write the pages to explore next to those of the site."""
    if error is None and app.builder.format == "html":
        gen_mds.write_gallery(Path(app.outdir))
        gen_mds.write_views(Path(app.outdir))


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_source)
    app.connect("doctree-read", add_narrow_forms, priority=100)  # before pictures are collected
    app.connect("doctree-read", keep_words_whole)
    app.connect("autodoc-process-docstring", leave_out_manual, priority=100)
    app.connect("build-finished", write_explorable)
