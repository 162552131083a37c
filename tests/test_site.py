"""The pages of the site: their code runs, prints what they say, and their tables are complete."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from browsing import browse

import placement_gym.solvers
from envs_registry import ENVS
from placement_gym import load_model
from placement_gym.cli import make_parser
from placement_gym.envs import REWARDS
from placement_gym.graph import Structure, extract
from placement_gym.hardware import PRESETS
from placement_gym.problem import Placement
from placement_gym.workloads import Conversation

pytestmark = pytest.mark.filterwarnings("error:.*this episode has ended")
"""A reader who copies the code sees no warning."""

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SAVED = ROOT / "tests" / "data" / "saved"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATOR = runpy.run_path(str(DOCS / "_scripts" / "gen_mds.py"))
COMMANDS = runpy.run_path(str(DOCS / "_scripts" / "gen_commands.py"))
GENERATED = dict(GENERATOR["generate_pages"]())
"""Text of the pages that come from docstrings and READMEs."""
PAGES = {
    str(path.relative_to(DOCS).with_suffix("")): path.read_text()
    for folder in ("tutorial", "how_to", "explanation", "reference", ".")
    for path in sorted((DOCS / folder).glob("*.md"))
} | {page: text for page, text in GENERATED.items() if page.startswith("environments/")}
PAGES["agents/index"] = GENERATED["agents/index"]
QUICK = {
    "index",
    "environments/DevicePlacementSim-v0",
    "tutorial/get_started",
    "how_to/devices",
    "explanation/latency",
}
"""Pages whose code runs in every run of the tests; that of the others takes longer."""
SMALLER = {
    "learn(2_000": "learn(256",
    "learn(1_000": "learn(256",
    "learn(60)": "learn(20)",
    '"DevicePlacement-v0", model="resnet"': '"DevicePlacement-v0", model="tiny"',
}
FILE_NAME = re.compile(r"Save this as\s+`([\w.]+)`")
COPIED = re.compile(r"^cp -r (\S+) (\S+)$", re.MULTILINE)
FIRST = (
    "Description",
    "Action Space",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
)
LAST = ("Arguments", "References", "Version History")
"""Sections of Gymnasium's own pages."""
SKIPPED = {"profile", "GPU,CPU", "ray", "memory-limited"}
"""Words of commands that need hours, a device, a cluster or files that are not here."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and code of each block of a page."""
    return BLOCK.findall(PAGES[page])


def with_code(language: str) -> list[str]:
    return [page for page in PAGES if any(name == language for name, _ in blocks(page))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a reader, who has a model and a plan."""
    for suffix in (".xml", ".bin"):
        shutil.copy(SAVED / f"small{suffix}", tmp_path / f"my_model{suffix}")
    (tmp_path / "results").mkdir()
    # The saved file is of an older version, a reader's plan of this one.
    saved = Placement.load(SAVED / "small-placement.json")
    graph = extract(load_model(tmp_path / "my_model.xml"))
    for name in ("plan-my_model.json", "plan-my_model-throughput.json"):
        replace(saved, structure=Structure.from_graph(graph)).save(tmp_path / "results" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save_files(page: str, folder: Path) -> None:
    """Save the blocks that the page asks its reader to save."""
    text = PAGES[page]
    for name in FILE_NAME.finditer(text):
        block = BLOCK.search(text, name.end())
        (folder / name[1]).write_text(block[2])


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page in QUICK else pytest.mark.slow)
        for page in with_code("python")
        if page != "how_to/other_libraries"  # see test_other_libraries.py
    ],
)
def test_the_code_of_a_page_prints_what_the_page_says(page: str, folder: Path) -> None:
    save_files(page, folder)
    images = list(np.zeros((3, 1, 3, 16, 16), dtype=np.float32))
    namespace: dict[str, Any] = {"images": images}
    printed = ""
    for number, (language, code) in enumerate(blocks(page)):
        if language == "text":
            assert printed.strip() == code.strip()
        if language != "python":
            continue
        for original, smaller in SMALLER.items():
            code = code.replace(original, smaller)
        with redirect_stdout(StringIO()) as out:
            exec(compile(code, f"{page}, block {number}", "exec"), namespace)
        printed = out.getvalue()


def commands(page: str) -> list[list[str]]:
    """The commands of a page that any machine can run."""
    lines = "".join(code for language, code in blocks(page) if language == "sh").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [
        line[1:]
        for line in words
        if line and line[0].endswith("placement-gym") and SKIPPED.isdisjoint(line)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tutorial/first_agent", "studies", "your_own_agent"])
def test_the_commands_of_a_page_run(page: str, folder: Path) -> None:
    save_files(page, folder)
    (folder / "docs").symlink_to(ROOT / "docs")  # readers are in a checkout
    for source, target in COPIED.findall(PAGES[page]):
        shutil.copytree(source, target)
    for command in commands(page):
        done = subprocess.run(
            [sys.executable, "-m", "placement_gym", *command], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


class Decoder(torch.nn.Module):
    """Two layers of attention, with the keys and values of past tokens as inputs and outputs."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(100, width)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, 3 * width) for _ in range(2))
        self.last = torch.nn.Linear(width, 100)

    def forward(self, tokens: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden, present = self.tokens(tokens), []
        for layer, old_key, old_value in zip(self.layers, past[::2], past[1::2], strict=True):
            query, key, value = layer(hidden)[:, None].chunk(3, dim=-1)
            present += [torch.cat([old_key, key], 2), torch.cat([old_value, value], 2)]
            attended = torch.nn.functional.scaled_dot_product_attention(query, *present[-2:])
            hidden = hidden + attended[:, 0]
        return self.last(hidden), *present


@pytest.mark.slow
def test_the_page_on_language_models_makes_state_of_past_inputs(folder: Path) -> None:
    code = next(code for _, code in blocks("how_to/language_models") if "MakeStateful" in code)
    names = [f"{layer}.{part}" for layer in range(2) for part in ("key", "value")]
    past = [f"past_key_values.{name}" for name in names]
    present = [f"present.{name}" for name in names]
    torch.onnx.export(
        Decoder().eval(),
        (torch.zeros(1, 2, dtype=torch.long), *[torch.zeros(1, 1, 3, 64)] * len(names)),
        "decoder.onnx",
        input_names=["input_ids", *past],
        output_names=["logits", *present],
        dynamic_axes={"input_ids": {1: "tokens"}} | {name: {2: "past"} for name in past},
        dynamo=False,
    )
    exec(code, {})
    env = gym.make("DevicePlacementSim-v0", model="decoder.xml", scenario="chat-32-8")
    assert env.reset()[1]["feasible"]


SWALLOWED = re.compile(r"%|\+\+\+|\+ |\([^()]*\)=")
"""Beginnings of lines that MyST takes for a comment, a break, a list and the name of a place."""


def test_no_line_of_a_page_is_swallowed() -> None:
    texts = {str(path): path.read_text() for path in sorted(DOCS.rglob("*.md"))} | GENERATED
    for page, text in texts.items():
        without_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        lines = (line.lstrip() for line in without_code.splitlines())
        assert not [line for line in lines if SWALLOWED.match(line)], page


def first_cells(page: str) -> set[str]:
    """What stands between backticks in the first cells of the tables of a page."""
    rows = re.findall(r"^\|([^|]*)\|", PAGES[page], re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([^`]*)`", row)}


def test_the_manual_names_every_reward_and_key_of_info() -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny", observe_devices=True)
    _, info = env.reset()
    named = first_cells("environments/DevicePlacement-v0")
    assert not set(env.observation_space.keys()) - named
    assert not set(info) - named
    assert not {f'"{reward}"' for reward in REWARDS} - named
    assert all(
        f"`{part}`" in PAGES["environments/DevicePlacement-v0"] for part in Conversation.parts
    )


def test_the_page_of_an_environment_names_the_keys_it_adds() -> None:
    shared = gym.make("DevicePlacementSim-v0", model="tiny").observation_space
    for env_id, options in {
        "DevicePlacementPerUnitSim-v0": {},
        "DevicePlacementSim-v0": {"schedule": "event", "decisions": ("placement", "priority")},
    }.items():
        space = gym.make(env_id, model="tiny", **options).observation_space
        added = set(space.keys()) - set(shared.keys())
        assert added
        assert not added - first_cells(GENERATOR["page_of"](env_id))


@pytest.mark.parametrize("env", ENVS, ids=lambda env: str(env["id"]))
def test_the_page_of_an_environment_is_complete_in_the_order_of_gymnasium(
    env: dict[str, Any],
) -> None:
    page = PAGES[GENERATOR["page_of"](env["id"])]
    assert f'gymnasium.make("{env["id"]}")' in page
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    order = [*FIRST, *(one for one in headings if one not in {*FIRST, *LAST}), *LAST]
    if "Online" in env["id"]:
        order.remove("References")
    assert headings == order
    assert "(env.py)" not in page
    for space in ("Action", "Observation"):
        assert re.search(rf"^\| {space} Space \| .*`.+ \|$", page, re.MULTILINE)
    pictures = re.findall(r"^!\[.+\]\(/(pictures/.+)\)$", page, re.MULTILINE)
    assert len(pictures) == (not re.search("Online|Stream", env["id"]))
    assert all((DOCS / picture).exists() for picture in pictures)


@pytest.mark.parametrize("env", ENVS, ids=lambda env: str(env["id"]))
def test_the_page_of_an_environment_names_every_argument(env: dict[str, Any]) -> None:
    module, _, entry = env["entry_point"].partition(":")
    own = inspect.signature(getattr(import_module(module), entry)).parameters
    page = GENERATOR["page_of"](env["id"])
    assert not own.keys() - {"kwargs"} - first_cells(page)
    assert ("kwargs" in own) == ("| others |" in PAGES[page])


def test_the_page_of_devices_names_every_preset() -> None:
    assert not set(PRESETS) - first_cells("how_to/devices")


def test_the_page_of_agents_names_every_agent() -> None:
    from agents import AGENTS

    assert not set(AGENTS) - first_cells("agents/index")


def test_the_reference_has_every_public_name() -> None:
    text = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    names = [*placement_gym.__all__, *placement_gym.solvers.__all__]
    assert not [name for name in names if f":: {name}\n" not in text]


def test_the_home_page_has_code_to_copy() -> None:
    assert {"python", "sh"} <= {language for language, _ in blocks("index")}


def test_the_gallery_states_latencies_of_its_pages_and_small_pages(tmp_path: Path) -> None:
    GENERATOR["write_gallery"](tmp_path)
    figures = re.findall(
        r"\{figure\} gallery/(\S+)\.png\n:target: gallery/(\S+)\.html.*?\n\n(.*?)::::",
        PAGES["index"],
        re.DOTALL,
    )
    assert len(figures) == 9
    for picture, target, caption in figures:
        assert picture == target
        assert (DOCS / "gallery" / f"{picture}.png").stat().st_size < 40_000
        assert (tmp_path / "gallery" / f"{target}.html").stat().st_size < 1_000_000
        data = json.loads(gzip.decompress((DOCS / f"gallery/{target}.json.gz").read_bytes()))
        known = {one["latency_ms"]: one["result"] for one in data["placements"]}
        for number in re.findall(r"\d+\.\d+", caption):
            digits = len(number.partition(".")[2])
            stated = {f"{ms:.{digits}f}" for ms in known}
            assert number in stated or any(number in result for result in known.values())


def test_views_of_a_report_are_written_where_a_page_links_to(tmp_path: Path) -> None:
    GENERATOR["write_views"](tmp_path)
    page = GENERATOR["link_views"]((DOCS / "results" / "hsdag.md").read_text())
    links = re.findall(r'<a href="(\S+views/\S+)">', page)
    assert len(links) == 3
    assert "views/problem-0.html)" not in page
    assert all("d3" in (tmp_path / "results" / link).read_text() for link in links)


def test_markdown_that_is_no_page_is_linked_as_a_file() -> None:
    source = ROOT / "agents" / "hsdag" / "README.md"
    link = "[report](../../docs/results/paper/report.md)"
    for page in ("agents/hsdag", "results/hsdag"):
        target = GENERATOR["lead_links"](link, source, page)[len("[report](path:") : -1]
        assert (DOCS / page).parent.joinpath(target).resolve() == (
            DOCS / "results" / "paper" / "report.md"
        )


@pytest.mark.slow
def test_the_gallery_is_what_its_script_makes_today() -> None:
    script = runpy.run_path(str(DOCS / "gallery" / "make.py"))
    for name in ("resnet", "inception"):
        kept = json.loads(gzip.decompress((DOCS / f"gallery/{name}.json.gz").read_bytes()))
        assert json.loads(json.dumps(script["make_data"](script["ENTRIES"][name]))) == kept


@pytest.mark.parametrize("page", sorted((DOCS / "api").glob("*.md")), ids=lambda path: path.stem)
def test_a_page_of_the_api_begins_with_what_to_use_for_what(page: Path) -> None:
    begin, _, _ = page.read_text().partition("```{")
    assert len(begin.split()) > 15
    if page.stem != "solvers":
        assert "{py:" in begin


def test_pictures_have_narrow_forms_and_the_episode_is_small() -> None:
    names = {path.stem for path in (DOCS / "pictures").glob("*.svg")}
    wide = {name for name in names if not name.endswith("-narrow")}
    assert names == wide | {f"{name}-narrow" for name in wide}
    assert 10_000 < (DOCS / "pictures" / "episode.gif").stat().st_size < 300_000


def test_results_index_shows_pictures_that_exist() -> None:
    results = DOCS / "results"
    pictures = re.findall(r"!\[.+\]\((.+)\)", (results / "index.md").read_text())
    assert pictures
    assert all((results / picture).exists() for picture in pictures)


@pytest.mark.slow
def test_site_code_is_copied_unclipped_and_pictures_turn_dark(tmp_path: Path) -> None:
    pytest.importorskip("sphinx_copybutton")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    subprocess.run([*build, str(DOCS), str(tmp_path)], check=True)
    size = {"width": 1366, "height": 900}
    with browse(tmp_path / "index.html", ready=False, viewport=size, color_scheme="dark") as page:
        for name in ("index", "studies", "tutorial/first_agent", "results/index"):
            page.goto((tmp_path / f"{name}.html").as_uri())
            clipped = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
            assert page.eval_on_selector_all(".content pre", clipped) == 0
        filters = page.eval_on_selector_all(
            ".content img", "all => all.map(one => getComputedStyle(one).filter)"
        )
        assert filters
        assert all(one.startswith("invert") for one in filters)
        page.goto((tmp_path / "results/placement-bench-1.html").as_uri())
        wider = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
        assert page.eval_on_selector_all(".table-wrapper", wider) == 0
        page.goto((tmp_path / "results/online.html").as_uri())
        assert "±\N{NO-BREAK SPACE}" in "".join(page.locator("td").all_inner_texts())
        page.set_viewport_size({"width": 400, "height": 800})
        page.goto((tmp_path / "how_to/devices.html").as_uri())
        outside = "all => all.filter(one => one.getBoundingClientRect().right > 400).length"
        assert page.eval_on_selector_all(":not(td) > p code", outside) == 0
        one_line = "one => getComputedStyle(one).whiteSpace"
        assert page.eval_on_selector(".highlight-console pre", one_line) == "pre"
        page.goto((tmp_path / "index.html").as_uri())
        assert page.locator("button.copybtn").count() == 2


def test_the_page_of_commands_has_the_options_of_every_command() -> None:
    filled = COMMANDS["fill_options"](PAGES["reference/commands"])
    assert "{options}" not in filled
    sections = dict(
        re.findall(r"^## ([a-z -]+)\n(.*?)(?=^## |\Z)", filled, re.MULTILINE | re.DOTALL)
    )
    parser = make_parser()
    bench = {f"bench {name}": one for name, one in parser.commands["bench"].commands.items()}
    commands = {name: one for name, one in parser.commands.items() if name != "bench"} | bench
    assert sections.keys() == commands.keys()
    everywhere = {"-h", "--help", "--json", "-q", "--quiet", "-v", "--verbose"}
    for name, command in commands.items():
        for option in command._option_string_actions.keys() - everywhere:
            assert re.search(rf"^\|.*`{re.escape(option)}[ `].*\|$", sections[name], re.MULTILINE)
