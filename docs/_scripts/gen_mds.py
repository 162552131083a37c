"""Writes the pages of environments and agents from docstrings and READMEs, as Gymnasium does.

``docs/conf.py`` calls ``write_pages``, and when the site is built ``write_gallery`` and
``write_views``; nothing that they write is committed.
"""

from __future__ import annotations

import gzip
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from agents.about import ABOUT, CHOICE, LEARNED, About
from envs_registry import ENVS
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.view.page import render_page

DOCS = Path(__file__).parent.parent
ROOT = DOCS.parent
COPIES = {
    "project/changelog": ROOT / "CHANGELOG.md",
    "project/contributing": ROOT / "CONTRIBUTING.md",
    "environments/index": ROOT / "placement_gym/envs/env.py",
    "agents/index": ROOT / "agents/README.md",
    **{f"agents/{file.parent.name}": file for file in sorted(ROOT.glob("agents/*/README.md"))},
}
"""Page -> the file whose text it shows, which links between committed documents lead to."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)")
VIEW = re.compile(r"\[([^\]]+)\]\((views/\S+\.html)\)")
ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
REFERENCE = re.compile(r"^(?:See|As for) ``(\w+)``")


def write_pages() -> None:
    """Write every generated page whose text has changed, and remove those without a source."""
    pages = {DOCS / f"{name}.md": text for name, text in generate_pages()}
    written = {page for folder in {page.parent for page in pages} for page in folder.glob("*.md")}
    for page in written - pages.keys():
        page.unlink()
    for page, text in pages.items():
        page.parent.mkdir(exist_ok=True)
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def write_gallery(site: Path) -> None:
    """Write the pages to explore, whose contents ``docs/gallery/make.py`` keeps, into a site."""
    write_explorable(DOCS / "gallery", site / "gallery")


def write_views(site: Path) -> None:
    """Write the views of reports, whose contents ``keep_views.py`` keeps, into a site."""
    for folder in sorted((DOCS / "results").glob("*/views")):
        write_explorable(folder, site / folder.relative_to(DOCS))


def write_explorable(folder: Path, target: Path) -> None:
    """Write the pages of kept contents, ``NAME.json.gz``, as ``NAME.html``."""
    target.mkdir(parents=True, exist_ok=True)
    for kept in sorted(folder.glob("*.json.gz")):
        page = render_page(json.loads(gzip.decompress(kept.read_bytes())))
        (target / kept.name.replace(".json.gz", ".html")).write_text(page)


def link_views(text: str) -> str:
    """The Markdown of a report, with links to views that the build writes after the pages."""
    return VIEW.sub(r'<a href="\2">\1</a>', text)


def generate_pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each page, relative to ``docs``, and its Markdown."""
    for name, source in COPIES.items():
        text = generate_manual() if name == "environments/index" else source.read_text()
        if name == "agents/index":
            text = generate_agents(text)
        elif name.startswith("agents/"):
            text += interface_of(name)
        yield name, lead_links(text, source, name)
    for env in ENVS:
        name = f"environments/{env['id']}"
        yield name, lead_links(generate_environment(env), COPIES["environments/index"], name)


def lead_links(text: str, source: Path, page: str) -> str:
    """Lead relative links of a file to pages of the site, or to files relative to ``page``."""
    pages = {file.resolve(): f"/{name}.md" for name, file in COPIES.items()}

    def lead(link: re.Match[str]) -> str:
        target = (source.parent / link[1]).resolve()
        return pages.get(target, os.path.relpath(target, (DOCS / page).parent))

    return LINK.sub(lead, text)


def generate_manual() -> str:
    """The page of what all environments share: the docstring of ``DevicePlacementEnv``."""
    names = [env["id"] for env in ENVS]
    lines = [first_line(load(env["entry_point"])) for env in ENVS]
    table = table_of(
        "| id | |",
        *(
            f"| [`{name}`](/environments/{name}.md) | {line} |"
            for name, line in zip(names, lines, strict=True)
        ),
    )
    listed = "\n".join(names)
    toctree = f"```{{toctree}}\n:hidden:\n\n{listed}\n```"
    intro = (
        "The page of an id has its arguments; this one describes what all ids share that place a "
        "model. `DevicePlacementOnline-v0` places requests, and its page describes all of it."
    )
    sections = sections_of(DevicePlacementEnv)
    return "\n\n".join(["# The environment", table, intro, toctree, sections, ""])


def generate_environment(env: Mapping[str, Any]) -> str:
    """The page of a registered id: where it differs from the manual, and all of its arguments."""
    entry = load(env["entry_point"])
    returned = entry if inspect.isclass(entry) else get_type_hints(entry)["return"]
    manual = entry if returned is DevicePlacementEnv else returned
    facts = table_of(
        "| | |",
        f'| Creation | `gym.make("{env["id"]}")` |',
        f"| Deterministic | {'no' if env.get('nondeterministic') else 'yes'} |",
        f"| Entry point | `{env['entry_point']}` |",
    )
    rows = [f"| `{name}` | {default} | {text} |" for name, default, text in arguments_of(entry)]
    arguments = table_of("| argument | default | meaning |", *rows)
    before, heading, after = sections_of(manual).partition("## References")
    return (
        f"# {env['id']}\n\n{first_line(entry)}.\n\n{facts}\n\n{before}"
        f"## Arguments\n\n{arguments}\n\n{heading}{after}\n"
    )


def load(entry_point: str) -> Callable[..., Any]:
    """The class or function that ``gym.make`` calls."""
    module, _, name = entry_point.partition(":")
    target: Callable[..., Any] = getattr(import_module(module), name)
    return target


def first_line(target: object) -> str:
    """The first line of a docstring, without its full stop and the name before a colon."""
    line = markdown_of(target).partition("\n")[0].rstrip(".")
    text = line.partition("`: ")[2] or line
    return text[0].upper() + text[1:]


def markdown_of(target: object) -> str:
    """A docstring with the double backticks of reStructuredText made single."""
    return re.sub(r"``([^`\n]+)``", r"`\1`", inspect.getdoc(target) or "")


def sections_of(target: object) -> str:
    """The Markdown sections of a docstring, without what it says of arguments and errors."""
    begun = re.search(r"^## .*?(?=^(?:Args|Raises|Returns):|\Z)", markdown_of(target), re.M | re.S)
    return begun[0].strip() if begun else ""


def arguments_of(target: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and meaning of each argument, with those that ``kwargs`` refers to."""
    parameters = inspect.signature(target).parameters
    for name, text in described_arguments(target).items():
        referred = REFERENCE.match(text)
        if name == "kwargs" and referred:
            own, any_keyword = {*described_arguments(target)}, "kwargs" in parameters
            for row in arguments_of(resolve(target, referred[1])):
                if row[0] not in own and (any_keyword or row[0] in parameters):
                    yield row
        else:
            default = parameters[name].default
            shown = "required" if default is inspect.Parameter.empty else f"`{default!r}`"
            yield name, shown.replace("'", '"'), text.replace("``", "`").replace("|", r"\|")


def described_arguments(target: Callable[..., Any]) -> dict[str, str]:
    """Name -> meaning of the ``Args`` of a docstring, references to another class resolved."""
    begun = re.search(r"^Args:\n((?: {4}.*\n?|\n)*)", inspect.getdoc(target) or "", re.M)
    entries = ENTRY.findall(begun[1]) if begun else []
    texts = {name: " ".join(text.split()) for name, text in entries}
    for name, text in texts.items():
        referred = REFERENCE.match(text)
        if referred and name != "kwargs":
            meaning = described_arguments(resolve(target, referred[1]))[name]
            rest = text[referred.end() :].removeprefix(".")
            texts[name] = (meaning.removesuffix(".") if rest[:1] in (";", ",") else meaning) + rest
    return texts


def resolve(target: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The class that a docstring refers to by name: of its module, or one that an id makes."""
    entries = {entry.__name__: entry for entry in (load(env["entry_point"]) for env in ENVS)}
    found: Callable[..., Any] = entries.get(name) or getattr(import_module(target.__module__), name)
    return found


def generate_agents(readme: str) -> str:
    """The page of all agents: ``agents/README.md`` with tables of ``agents.about`` in it."""
    intro, heading, rest = readme.partition("\n## ")
    tables = "\n\n".join(
        [
            "## Fixed choices, searches and solvers",
            table_of(
                "| agent | what it does | kind | optimises | exact for |",
                *(
                    f"| `{name}` | {about.line} | {about.kind} | {goal_of(about)} "
                    f"| {about.optimum} |"
                    for name, about in ABOUT.items()
                    if about.kind != LEARNED
                ),
            ),
            "## Learned agents",
            table_of(
                "| agent | what it does | `preset`, the default first |",
                *(
                    f"| `{name}` | {about.line} | {code_of(about.settings)} |"
                    for name, about in ABOUT.items()
                    if about.kind == LEARNED
                ),
            ),
            "```{toctree}\n:maxdepth: 1\n:glob:\n\nhsdag\n*\n```",
        ]
    )
    return f"{intro}\n\n{tables}\n{heading}{rest}"


def goal_of(about: About) -> str:
    """The objective and the schedule that an agent's own model is of."""
    if about.kind == CHOICE:
        return ""
    if not about.model:
        return "what is evaluated"
    return f"{about.objectives[0]}, schedule {' or '.join(about.model)}"


def code_of(names: tuple[str, ...]) -> str:
    """Names in backticks."""
    return ", ".join(f"`{name}`" for name in names if name)


def interface_of(page: str) -> str:
    """The classes that the package of a learned agent exports, which is not imported here."""
    init = (ROOT / page / "__init__.py").read_text()
    exported = re.findall(r'"(\w+)"', init.partition("__all__")[2])
    classes = "\n".join(f".. autoclass:: {page.replace('/', '.')}.{name}" for name in exported)
    return f"\n## Interface\n\n```{{eval-rst}}\n{classes}\n```\n"


def table_of(header: str, *rows: str) -> str:
    """A Markdown table."""
    return "\n".join([header, "| --- " * (header.count("|") - 1) + "|", *rows])
