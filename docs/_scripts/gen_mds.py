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

from agents.about import ABOUT
from envs_registry import ENVS
from placement_gym.envs import DevicePlacementEnv, MeasuredEnv, PerUnitEnv, SimulatedEnv
from placement_gym.view import render_page

DOCS = Path(__file__).parent.parent
ROOT = DOCS.parent
BASELINES = tuple(
    ROOT / "agents" / name / "README.md"
    for name in ("logits", "post", "graph_groups", "list_policy")
)
"""Files of agents with short descriptions, which share a page."""
COPIES = {
    "project/changelog": ROOT / "CHANGELOG.md",
    "project/contributing": ROOT / "CONTRIBUTING.md",
    "agents/index": ROOT / "agents/README.md",
    **{
        f"agents/{file.parent.name}": file
        for file in sorted(ROOT.glob("agents/*/README.md"))
        if file not in BASELINES
    },
}
"""Page -> the file whose text it shows, which links between committed documents lead to."""
MANUALS = {
    "environments/DevicePlacement-v0": ROOT / "placement_gym/envs/env.py",
    "environments/DevicePlacementSim-v0": ROOT / "placement_gym/envs/simulated_env.py",
    "environments/DevicePlacementPerUnit-v0": ROOT / "placement_gym/envs/per_unit.py",
    "environments/DevicePlacementStream-v0": ROOT / "placement_gym/envs/stream.py",
    "environments/DevicePlacementOnline-v0": ROOT / "placement_gym/envs/online/env.py",
}
"""Page -> the file with most of its text, which links between committed documents lead to."""
FILES = ("results/floors/floors.md", "results/paper/report.md")
"""Markdown of this folder that the site gives as files, not as pages."""
PICTURES: dict[type, str] = {
    MeasuredEnv: "![A measured step: compile, compare outputs, then time the placement and the "
    "reference device in turn](/pictures/measurement.svg)",
    SimulatedEnv: "![The fastest placement of Inception-V3 on a simulated CPU and GPU, and what "
    "other choices cost](/pictures/overview.svg)",
    PerUnitEnv: "![Units of Inception-V3 are placed one by one, and its latency falls]"
    "(/pictures/episode.gif)",
}
SHARED = {"DevicePlacementPerUnitSim-v0": "DevicePlacementPerUnit-v0"}
"""Id -> the id whose page it shares."""
ABOUT_BASELINES = """# Learned baselines

Four small agents: `logits`, a table; `post`, which updates such a table by the cross-entropy
method; `graph-groups`, the best learner where memory is scarce; and `list-policy`, which answers
within milliseconds.
"""
"""What the page of ``BASELINES`` says above their texts."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)")
VIEW = re.compile(r"\[([^\]]+)\]\((\S*views/\S+\.html)\)")
ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
REFERENCE = re.compile(r"^(?:See|As for) ``(\w+)``")
"""How a meaning refers to one that is shown in its place, or to the page that has it."""


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
    """The Markdown of a page, with links to views that the build writes after the pages."""
    return VIEW.sub(r'<a href="\2">\1</a>', text)


def generate_pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each page, relative to ``docs``, and its Markdown."""
    for name, source in COPIES.items():
        text = source.read_text()
        if name == "agents/index":
            text = generate_agents(text)
        elif name.startswith("agents/"):
            text += interface_of(name)
        yield name, lead_links(text, source, name)
    yield "agents/baselines", generate_baselines("agents/baselines")
    for env in ENVS:
        if env["id"] not in SHARED:
            name = page_of(env["id"])
            yield name, lead_links(generate_environment(env), source_of(env), name)


def lead_links(text: str, source: Path, page: str) -> str:
    """Lead relative links of a file to pages of the site, or to files relative to ``page``.

    MyST takes a Markdown file for a page, unless ``path:`` says that it is a file.
    """
    pages = {file.resolve(): f"/{name}.md" for name, file in list_shown()}
    files = {(DOCS / name).resolve() for name in FILES}

    def lead(link: re.Match[str]) -> str:
        target = (source.parent / link[1]).resolve()
        relative = os.path.relpath(target, (DOCS / page).parent)
        return f"path:{relative}" if target in files else pages.get(target, relative)

    return LINK.sub(lead, text)


def list_shown() -> Iterator[tuple[str, Path]]:
    """Yield each page with a file that links between committed documents lead to."""
    yield from (COPIES | MANUALS).items()
    yield "environments/DevicePlacement-v0", ROOT / "envs_registry.py"
    yield from (("agents/baselines", file) for file in BASELINES)


def page_of(env_id: str) -> str:
    """The page of a registered id."""
    return f"environments/{SHARED.get(env_id, env_id)}"


def generate_environment(env: Mapping[str, Any]) -> str:
    """The page of a registered id, as Gymnasium's: a table, then the sections of its docstring."""
    entry, manual = load(env["entry_point"]), manual_of(env)
    sections = sections_of(manual)
    picture = next((PICTURES[base] for base in PICTURES if issubclass(class_of(env), base)), None)
    if manual is MeasuredEnv:  # the others say what differs
        sections = share_sections(sections, sections_of(DevicePlacementEnv))
    ids = [one["id"] for one in ENVS if page_of(one["id"]) == page_of(env["id"])]
    made = " or ".join(f'`gymnasium.make("{env_id}")`' for env_id in ids)
    facts = table_of(
        "| | |",
        f"| Action Space | {first_sentence(sections['Action Space'])} |",
        f"| Observation Space | {first_sentence(sections['Observation Space'])} |",
        f"| Import | `import placement_gym`, {made} |",
    )
    rows = [f"| {name} | {default} | {text} |" for name, default, text in arguments_of(entry)]
    sections["Arguments"] = table_of("| argument | default | meaning |", *rows)
    for heading in ("References", "Version History"):  # they come last, as in Gymnasium
        if heading in sections:
            sections[heading] = sections.pop(heading)
    return "\n\n".join(
        [
            f"# {env['id']}",
            f"{first_line(manual)}.",
            *([] if picture is None else [picture]),
            facts,
            *(f"## {heading}\n\n{text}" for heading, text in sections.items()),
            "",
        ]
    )


def share_sections(own: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """The sections of an environment, its description after that of all, with those it lacks."""
    description = f"{shared['Description']}\n\n{own['Description']}"
    return {**shared, **own, "Description": description}


def class_of(env: Mapping[str, Any]) -> type:
    """The class that ``gym.make`` returns."""
    entry = load(env["entry_point"])
    found: type = entry if inspect.isclass(entry) else get_type_hints(entry)["return"]
    return found


def manual_of(env: Mapping[str, Any]) -> Callable[..., Any]:
    """The class or function whose docstring has the sections."""
    entry = load(env["entry_point"])
    return entry if sections_of(entry) else class_of(env)


def source_of(env: Mapping[str, Any]) -> Path:
    """The file whose links a page has."""
    return Path(inspect.getfile(manual_of(env)))


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


def first_sentence(text: str) -> str:
    """What stands before the first full stop, colon or semicolon that ends words."""
    return " ".join(re.split(r"[.:;](?=\s)", text, maxsplit=1)[0].split())


def sections_of(target: object) -> dict[str, str]:
    """Heading -> Markdown of a docstring's sections, without its arguments and errors."""
    begun = re.search(r"^## .*?(?=^(?:Args|Raises|Returns):|\Z)", markdown_of(target), re.M | re.S)
    parts = re.findall(r"^## (.+)\n+((?:(?!^## ).*\n?)*)", begun[0] if begun else "", re.M)
    return {heading: text.strip() for heading, text in parts}


def arguments_of(target: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    """Yield names, default and meaning of arguments.

    Arguments for which ``kwargs`` says ``See X`` are those of X in full; if it says ``As for X``,
    they are one row with a link.
    """
    parameters, own = inspect.signature(target).parameters, described_arguments(target)
    for name, text in own.items():
        meaning = text.replace("``", "`").replace("|", r"\|")
        referred = REFERENCE.match(text)
        if name != "kwargs":
            default = parameters[name].default
            shown = "required" if default is inspect.Parameter.empty else f"`{default!r}`"
            yield f"`{name}`", shown.replace("'", '"'), meaning
        elif referred is None:
            yield "others", "", meaning
        else:
            base, further = resolve(target, referred[1]), parameters.keys() - own.keys()
            rows = [row for row in arguments_of(base) if row[0].strip("`") in further]
            if text.startswith("See"):
                yield from rows
            else:
                yield ", ".join(row[0] for row in rows), "", f"As for {link_to(base)}."


def described_arguments(target: Callable[..., Any]) -> dict[str, str]:
    """Name -> meaning of the ``Args`` of a docstring, with links to pages that it refers to."""
    begun = re.search(r"^Args:\n((?: {4}.*\n?|\n)*)", inspect.getdoc(target) or "", re.M)
    entries = ENTRY.findall(begun[1]) if begun else []
    texts = {name: " ".join(text.split()) for name, text in entries}
    for name, text in texts.items():
        referred = REFERENCE.match(text)
        if referred and name != "kwargs":
            base = resolve(target, referred[1])
            inside = text.startswith("See")
            meaning = described_arguments(base)[name] if inside else f"As for {link_to(base)}."
            rest = text[referred.end() :].removeprefix(".")
            texts[name] = (meaning.removesuffix(".") if rest[:1] in (";", ",") else meaning) + rest
    return texts


def link_to(target: Callable[..., Any]) -> str:
    """A link to the arguments of the id that an entry point makes."""
    env_id = next(one["id"] for one in ENVS if load(one["entry_point"]) is target)
    return f"[`{env_id}`](/{page_of(env_id)}.md#arguments)"


def resolve(target: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The class that a docstring refers to by name: of its module, or one that an id makes."""
    entries = {entry.__name__: entry for entry in (load(env["entry_point"]) for env in ENVS)}
    found: Callable[..., Any] = entries.get(name) or getattr(import_module(target.__module__), name)
    return found


def generate_agents(readme: str) -> str:
    """The page of all agents: ``agents/README.md``, then the table of ``agents.about``."""
    parts = [
        readme,
        "## All agents",
        "`placement-gym agents NAME` shows the options of an agent and what it optimises.",
        table_of(
            "| agent | what it does |",
            *(f"| `{name}` | {about.line} |" for name, about in ABOUT.items()),
        ),
        "```{toctree}\n:hidden:\n:glob:\n\nhsdag\n*\n```\n",
    ]
    return "\n\n".join(parts)


def generate_baselines(page: str) -> str:
    """The page of the agents with short descriptions: a section for each."""
    texts = [lead_links(source.read_text(), source, page) for source in BASELINES]
    sections = [re.sub(r"^#", "##", text, flags=re.MULTILINE) for text in texts]
    packages = [f"agents/{source.parent.name}" for source in BASELINES]
    return "\n".join([ABOUT_BASELINES, *sections]) + interface_of(*packages)


def interface_of(*packages: str) -> str:
    """The classes that packages of learned agents export, which are not imported here."""
    classes = "\n".join(
        f".. autoclass:: {package.replace('/', '.')}.{name}"
        for package in packages
        for name in list_classes(ROOT / package / "__init__.py")
    )
    return f"\n## Interface\n\n```{{eval-rst}}\n{classes}\n```\n"


def list_classes(init: Path) -> list[str]:
    """The classes that a package exports."""
    exported = init.read_text().partition("__all__")[2].partition("]")[0]
    return re.findall(r'"([A-Z]\w*[a-z]\w*)"', exported)


def table_of(header: str, *rows: str) -> str:
    """A Markdown table."""
    return "\n".join([header, "| --- " * (header.count("|") - 1) + "|", *rows])
