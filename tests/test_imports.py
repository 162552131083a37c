from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import networkx as nx
import pytest
from processes import run_python

import agents
import placement_gym
from placement_gym import solvers

ROOT = Path(placement_gym.__file__).parent


def find_sources(folder: Path) -> dict[str, Path]:
    """The file of each module below a package's folder."""
    return {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in sorted(folder.rglob("*.py"))
    }


SOURCES = find_sources(ROOT)
CODE = SOURCES | find_sources(ROOT.parent / "agents")
"""The package's modules, and those of the agents too."""
FLOORS = (
    {"base"},
    {"hardware", "models"},
    {"workloads"},
    {"graph"},
    {"problem"},
    {"schedules"},
    {"solvers", "backends"},
    {"view"},
    {"envs"},
    {"bench", "deployment"},
    {"cli"},
)
BENCH_FLOORS = (
    {"run"},
    {"study"},
    {"known"},
    {"benchmark", "scenes"},
    {"report"},
    {"comparing"},
)
"""What is in ``bench``, the largest room, has an order too."""
ROOT_FILES = {"placement_gym", "placement_gym.__main__", "placement_gym.version"}
APART = (
    ("hardware", "models"),
    ("models", "hardware"),
    ("solvers", "backends"),
    ("backends", "solvers"),
    ("backends.measured", "backends.simulated"),
    ("bench", "deployment"),
    ("deployment", "bench"),
)
"""Rooms of which the first never imports the second."""


def for_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def statements(node: ast.AST, annotations: bool = False) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run, those inside functions included; or also those of annotations alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif annotations or not for_type_checking(child):
            yield from statements(child, annotations)


@cache
def doors() -> dict[str, dict[str, str]]:
    """What each room's door names, and the module that it comes from."""
    return {module: read_door(path) for module, path in CODE.items() if path.stem == "__init__"}


def read_door(path: Path) -> dict[str, str]:
    """Name -> module, by the stub of a room; empty without one."""
    room = ".".join(path.parent.relative_to(ROOT.parent).parts)
    stub = path.with_suffix(".pyi")
    if not stub.exists():
        return {}
    return {
        alias.name: f"{room}.{statement.module or alias.name}"
        for statement in ast.parse(stub.read_text()).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def find_origin(source: str, name: str) -> str:
    """The module of ours that ``from source import name`` reads, behind doors."""
    if f"{source}.{name}" in CODE and name not in doors().get(source, {}):
        return f"{source}.{name}"
    while name in doors().get(source, {}):
        source = doors()[source][name]
    return source


@cache
def imported(module: str, annotations: bool = False) -> frozenset[str]:
    """Modules that a source names, our own as precisely as possible; see ``statements``."""
    names: set[str] = set()
    for statement in statements(ast.parse(CODE[module].read_text()), annotations):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        else:
            assert statement.level == 0, f"{module} imports relatively"
            names |= {find_origin(str(statement.module), alias.name) for alias in statement.names}
    return frozenset(names)


@cache
def reached(module: str) -> set[str]:
    """Our modules that a module needs, directly or through others."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = imported(waiting.pop()) & set(CODE) - found - {"placement_gym"}
        found |= new
        waiting += new
    return found


def part(module: str, depth: int) -> str:
    """A part of a module's name: at depth 1 its room."""
    return [*module.split("."), "", ""][depth]


def find_upward(module: str, floors: tuple[set[str], ...], depth: int) -> set[str]:
    """Modules above a module's own floor that it reaches."""
    rank = {name: number for number, names in enumerate(floors) for name in names}
    own = rank[part(module, depth)]
    return {other for other in reached(module) if rank.get(part(other, depth), own) > own}


def lies_in(module: str, place: str) -> bool:
    return f"{module}.".startswith(f"placement_gym.{place}.")


def test_every_module_is_in_a_room_that_has_a_floor() -> None:
    rooms = {part(module, 1) for module in SOURCES if module not in ROOT_FILES}
    assert rooms == set.union(*FLOORS)
    assert {part(module, 2) for module in SOURCES if lies_in(module, "bench")} - {""} == set.union(
        *BENCH_FLOORS
    )


def test_dependencies_run_one_way() -> None:
    for module in set(SOURCES) - ROOT_FILES:
        assert not find_upward(module, FLOORS, 1), module


def test_dependencies_inside_bench_run_one_way() -> None:
    for module in SOURCES:
        if lies_in(module, "bench") and part(module, 2):
            upwards = find_upward(module, BENCH_FLOORS, 2)
            assert not {other for other in upwards if lies_in(other, "bench")}, module


@pytest.mark.parametrize(("first", "second"), APART)
def test_rooms_that_do_not_know_each_other(first: str, second: str) -> None:
    for module in SOURCES:
        if lies_in(module, first):
            assert not {other for other in reached(module) if lies_in(other, second)}, module


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports of annotations count, too."""
    graph = nx.DiGraph()
    for module in CODE:
        others = imported(module, annotations=True) & set(CODE) - {"placement_gym"}
        graph.add_edges_from((module, other) for other in others)
    assert not [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1]


def test_the_package_imports_neither_agents_nor_torch() -> None:
    for module in SOURCES:
        roots = {name.split(".")[0] for name in imported(module)}
        assert not roots & {"agents", "torch"}, module


LEARNING = ("torch", "stable_baselines3", "torch_geometric")
HEAVY = (*LEARNING, "agents", "numba", "openvino", "scipy", "matplotlib", "pydantic")
SIMULATE = "import gymnasium; gymnasium.make('placement_gym:DevicePlacementSim-v0', model='tiny')"
RARE = (
    "backends.measured",
    "backends.wrapper",
    "base.progress",
    "base.results",
    "base.schemas",
    "envs.device_table",
    "envs.per_unit",
    "envs.render",
    "graph.differences",
    "graph.generated",
    "graph.rounding",
    "graph.structure",
    "graph.submodels",
    "hardware.machine",
    "models.input_reader",
    "models.joining",
    "models.model_files",
    "models.own_inputs",
    "problem.constraints",
    "problem.costs.workloads",
    "problem.placement",
    "schedules.call_schedule",
    "schedules.event",
    "schedules.list",
    "solvers.tasks",
    "workloads.with_state",
    "workloads.runs",
    "workloads.samples",
    "workloads.steps",
)
"""Modules that a serial simulation of a built-in model does not run."""


STARTS = (
    ("import placement_gym, placement_gym.solvers", HEAVY),
    (
        "from placement_gym.cli.main import make_parser; make_parser()",
        (*HEAVY, "rich", "networkx"),
    ),
    (
        f"{SIMULATE}.reset()",
        (
            *LEARNING,
            "agents",
            "networkx",
            "pydantic",
            "scipy.sparse",
            *(f"placement_gym.{name}" for name in RARE),
        ),
    ),
    ("import agents.static, agents.search, agents.solvers", LEARNING),
)
"""What one process does in turn, and what it has not imported then."""


def test_what_starts_imports_nothing_heavy() -> None:
    told = run_python(
        "import sys\n"
        + "\n".join(
            f"{code}\nprint([m for m in {absent} if m in sys.modules])" for code, absent in STARTS
        )
    )
    # numba imports scipy.linalg, which in SciPy 1.15 imports this itself
    brought = run_python("import sys, scipy.linalg; print('scipy.sparse' in sys.modules)")
    if brought.strip() == "True":
        told = told.replace("['scipy.sparse']", "[]")
    assert told.split("\n")[:-1] == ["[]"] * len(STARTS)


def test_importing_agents_imports_nothing_heavy() -> None:
    heavy = set(HEAVY) - {"agents"}
    assert run_python(f"import sys, agents\nprint({heavy} & set(sys.modules))") == "set()\n"


def room_of(module: str) -> str:
    return module if CODE[module].stem == "__init__" else module.rpartition(".")[0]


def test_rooms_are_entered_by_their_doors() -> None:
    for module, path in CODE.items():
        for source, name in imported_names(path):
            origin = find_origin(source, name)
            room = room_of(origin) if origin in CODE else ""
            if room != "placement_gym" and doors().get(room) and origin != f"{source}.{name}":
                entered = room == room_of(module) or source in doors()
                assert entered, f"{module}: from {source} import {name}"


def test_a_door_names_what_other_rooms_use() -> None:
    outside = [
        path for name in ("tests", "benchmarks") for path in ROOT.parent.glob(f"{name}/**/*.py")
    ]
    used = {
        (source, name)
        for module, path in [*CODE.items(), *(("", path) for path in outside)]
        for source, name in imported_names(path)
        if not module or room_of(module) != source
    } | {(source, name) for door in doors().values() for name, source in door.items()}
    for room in set(doors()) - {"placement_gym", "placement_gym.solvers"}:
        assert not {(room, name) for name in doors()[room]} - used, room


def find_private_room(source: str, name: str) -> str:
    """The room that ``from source import name`` enters without its door; empty if none."""
    if CODE[source].stem != "__init__":
        return source.rpartition(".")[0].removeprefix("placement_gym").removeprefix(".")
    is_module = f"{source}.{name}" in CODE and CODE[f"{source}.{name}"].stem != "__init__"
    is_inside = is_module and name not in doors()[source] and "." in source
    return source.removeprefix("placement_gym.") if is_inside else ""


def test_tests_that_do_not_use_a_door_say_so_in_their_first_line() -> None:
    for path in (ROOT.parent / "tests").rglob("*.py"):
        rooms = {find_private_room(source, name) for source, name in imported_names(path)} - {""}
        first_line = path.read_text().partition("\n")[0]
        stated = first_line.removeprefix("# White-box tests of ")
        assert (stated if stated != first_line else "") == ", ".join(sorted(rooms)), path


@pytest.mark.parametrize("room", [room for room in doors() if doors()[room]])
def test_what_a_door_names_can_be_imported(room: str) -> None:
    package = import_module(room)
    assert dir(package) == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = package.no_such_name


def test_public_solvers_are_on_their_door() -> None:
    assert set(solvers.__all__) <= doors()["placement_gym.solvers"].keys()


def test_agents_lists_what_is_public() -> None:
    assert dir(agents) == sorted(agents.__all__)
    for name in agents.__all__:
        assert getattr(agents, name) is not None


@pytest.mark.parametrize(
    "name", ["doppler", "gdp", "graph_groups", "hsdag", "placeto", "post", "rnn"]
)
def test_agents_do_not_import_each_other(name: str) -> None:
    folder = ROOT.parent / "agents" / name
    for path in folder.glob("*.py"):
        for statement in statements(ast.parse(path.read_text())):
            if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("agents"):
                room = str(statement.module).split(".")[1]
                assert room in ("best", "common", "logits", "options", "search", name), path


@pytest.mark.parametrize(
    "place", ["placement_gym.solvers", "placement_gym.bench.run", "agents.search"]
)
def test_seconds_of_searches_and_rows_are_those_of_a_clock_that_stands(place: str) -> None:
    """Those of ``time`` would count the compilation of kernels."""
    paths = [path for module, path in CODE.items() if f"{module}.".startswith(f"{place}.")]
    assert paths
    assert not [path for path in paths if "from time import" in path.read_text()]


def imported_names(path: Path) -> list[tuple[str, str]]:
    """Module and name of every ``from placement_gym... import`` and ``from agents... import``."""
    return [
        (str(node.module), alias.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).partition(".")[0] in ("placement_gym", "agents")
        for alias in node.names
    ]


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT.parent / "benchmarks").glob("*.py")), ROOT.parent / "docs/pictures/draw.py"],
    ids=lambda path: path.stem,
)
def test_what_a_benchmark_imports_exists(path: Path) -> None:
    for module, name in imported_names(path):
        if not hasattr(import_module(module), name):
            import_module(f"{module}.{name}")
