"""Structures of graphs, to find operators again under other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import eq
from typing import Any

from placement_gym.base import UserError
from placement_gym.graph.operators import OpGraph
from placement_gym.models import to_text

CHANGING = (
    "Constant Parameter Result Convert Transpose Reshape Squeeze Unsqueeze Concat Split "
    "VariadicSplit Slice StridedSlice Gather ShapeOf Range Broadcast Tile Pad Interpolate "
    "NV12toBGR NV12toRGB I420toBGR I420toRGB Add Subtract Multiply Divide Power Sqrt Exp Log Erf "
    "Abs Minimum Maximum Clamp Select Sigmoid Tanh Gelu Swish HSwish HSigmoid Mish SoftPlus PRelu "
    "ReduceMean ReduceSum MVN NormalizeL2 BatchNormInference FakeQuantize Softmax "
    "ScaledDotProductAttention"
)
LIGHT = frozenset(CHANGING.split())
"""Types that OpenVINO adds, fuses or removes when it converts or preprocesses a model; products of
two activations are light, too."""
INDEX_BYTES = 256
"""Bytes of shapes and axes by which equal operators may differ. Hand-tuned."""
INDEX_SHARE = 0.25
"""Share of weights by which they may differ, which is half in f16. Hand-tuned."""


@dataclass(frozen=True)
class Structure:
    """Operators of a graph in topological order.

    Attributes:
        kinds: Name -> type, first output and bytes of weights, as in
            ``"Convolution f32[1,64,56,56] 36864"``.
        reads: Name -> operators that it reads.
    """

    kinds: dict[str, str]
    reads: Mapping[str, Sequence[str]]

    @classmethod
    def from_graph(cls, graph: OpGraph) -> Structure:
        """Describe a graph."""
        names = graph.names
        rows = zip(
            names,
            graph.types,
            graph.element_types,
            graph.stated_shapes,
            graph.weight_bytes.tolist(),
            strict=True,
        )
        return cls(
            {
                name: f"{type_} {element_type}{to_text(shape)} {weights}"
                for name, type_, element_type, shape, weights in rows
            },
            {
                name: tuple(names[source] for source in sources)
                for name, sources in zip(names, graph.predecessors(), strict=True)
            },
        )

    @classmethod
    def from_json(cls, kinds: dict[str, str], reads: Mapping[str, Sequence[str]]) -> Structure:
        """Read the structure in a file; raise ``UserError`` unless it is in topological order."""
        before: set[str] = set()
        for name in kinds:
            if strays := set(reads.get(name, ())) - before:
                raise UserError(f"{name!r} reads {min(strays)!r}, which does not stand before it")
            before.add(name)
        return cls(kinds, {name: tuple(reads.get(name, ())) for name in kinds})

    def to_json(self) -> dict[str, Any]:
        reads = {name: list(sources) for name, sources in self.reads.items() if sources}
        return {"kinds": dict(self.kinds), "reads": reads}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """Name -> operators that read it."""
        readers: dict[str, list[str]] = {name: [] for name in self.kinds}
        for name, sources in self.reads.items():
            for source in sources:
                readers[source].append(name)
        return readers

    @cached_property
    def anchors(self) -> Structure:
        """Operators that are not light; each reads the nearest ones above it."""
        above = self.find_nearest(self.kinds, self.reads)
        kinds = {name: kind for name, kind in self.kinds.items() if not is_light(kind)}
        return Structure(kinds, {name: sorted(above[name]) for name in kinds})

    def find_places(self, names: Mapping[str, str]) -> dict[str, object]:
        """Light operator -> its kind and nearest anchors, by their names in ``names``."""
        above = self.find_nearest(self.kinds, self.reads)
        below = self.find_nearest(reversed(self.kinds), self.readers)
        return {
            name: (
                drop_weights(kind),
                frozenset(names[anchor] for anchor in above[name]),
                frozenset(names[anchor] for anchor in below[name]),
            )
            for name, kind in self.kinds.items()
            if name not in names
        }

    def find_nearest(
        self, order: Iterable[str], neighbours: Mapping[str, Sequence[str]]
    ) -> dict[str, frozenset[str]]:
        """Find the nearest anchors of each operator on one side."""
        nearest: dict[str, frozenset[str]] = {}
        for name in order:
            sides = (
                nearest[near] if is_light(self.kinds[near]) else {near} for near in neighbours[name]
            )
            nearest[name] = frozenset().union(*sides)
        return nearest


def is_light(kind: str) -> bool:
    """Return whether OpenVINO may add, fuse or remove an operator."""
    type_ = kind.rsplit(" ", 2)[0]
    return type_ in LIGHT or (type_ == "MatMul" and not weigh(kind))


def weigh(kind: str) -> int:
    return int(kind.rpartition(" ")[2])


def drop_weights(kind: str) -> str:
    return kind.rpartition(" ")[0]


def are_alike(known: str, other: str) -> bool:
    """Return whether two kinds differ at most by small constants, such as shapes."""
    least, most = sorted((weigh(known), weigh(other)))
    near = most - least <= max(INDEX_BYTES, INDEX_SHARE * most)
    return near and drop_weights(known) == drop_weights(other)


def match(known: Structure, other: Structure) -> dict[str, str] | None:
    """Find the operators of ``other`` in ``known``: name -> name; None if the structures differ.

    Light operators may differ; those without a counterpart, such as preprocessing, get the name of
    a neighbour.
    """
    return pair(known, other) or match_anchors(known, other)


def match_anchors(known: Structure, other: Structure) -> dict[str, str] | None:
    names = pair(known.anchors, other.anchors, exact=False)
    if not names:
        return None
    # Light operators of one kind between the same anchors are counterparts, in order.
    counterparts: dict[object, list[str]] = {}
    for name, place in reversed(
        known.find_places({one: one for one in known.anchors.kinds}).items()
    ):
        counterparts.setdefault(place, []).append(name)
    for name, place in other.find_places(dict(names)).items():
        if counterparts.get(place):
            names[name] = counterparts[place].pop()
    # Others follow their reader, or at outputs what they read.
    for order, neighbours in ((reversed(other.kinds), other.readers), (other.kinds, other.reads)):
        for name in order:
            near = (names[one] for one in neighbours[name] if one in names)
            if name not in names and (found := next(near, None)):
                names[name] = found
    return names if len(names) == len(other.kinds) else None


def pair(known: Structure, other: Structure, exact: bool = True) -> dict[str, str] | None:
    """Match two structures with equal weights, or similar ones unless ``exact``; see ``match``."""
    colours = find_colours([known, other], exact)
    known_order, other_order = map(walk, (known, other), colours)
    names = dict(zip(other_order, known_order, strict=False))
    # Colours and walks only propose a match: compare all kinds and edges.
    agree = len(known.kinds) == len(other.kinds) and all(
        (eq if exact else are_alike)(known.kinds[found], other.kinds[name])
        and {names[source] for source in other.reads[name]} == set(known.reads[found])
        for name, found in names.items()
    )
    return names if agree else None


def find_colours(structures: Sequence[Structure], exact: bool) -> list[dict[str, int]]:
    """Give equal numbers to operators that differ in names only, or in weights unless ``exact``.

    This is the refinement of Weisfeiler and Leman (1968), along a whole acyclic graph at a time.
    """
    colours: Sequence[Mapping[str, object]] = [
        {name: kind if exact else drop_weights(kind) for name, kind in one.kinds.items()}
        for one in structures
    ]
    n_colours = 0
    while True:
        numbers: dict[object, int] = {}
        above = [
            number(one.kinds, one.reads, colour, numbers)
            for one, colour in zip(structures, colours, strict=True)
        ]
        numbers = {}
        found = [
            number(reversed(one.kinds), one.readers, colour, numbers)
            for one, colour in zip(structures, above, strict=True)
        ]
        if len(numbers) == n_colours:
            return found
        colours, n_colours = found, len(numbers)


def number(
    names: Iterable[str],
    neighbours: Mapping[str, Sequence[str]],
    colours: Mapping[str, object],
    numbers: dict[object, int],
) -> dict[str, int]:
    """Number operators by colours and the numbers of their neighbours, in topological order."""
    found: dict[str, int] = {}
    for name in names:
        key = (colours[name], *sorted(found[near] for near in neighbours[name]))
        found[name] = numbers.setdefault(key, len(numbers))
    return found


def walk(structure: Structure, colours: Mapping[str, int]) -> list[str]:
    """Order operators by a depth-first walk by colours, weights, then topological order."""
    rank = {name: (colours[name], weigh(kind)) for name, kind in structure.kinds.items()}
    order: dict[str, None] = {}
    for start in sorted(rank, key=rank.__getitem__):
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name not in order:
                order[name] = None
                near = [*structure.readers[name], *structure.reads[name]]
                waiting += sorted(near, key=rank.__getitem__, reverse=True)
    return list(order)


def describe_difference(known: Structure, other: Structure) -> str:
    """Describe the first difference of two structures, with a remedy."""
    missing, strange = find_difference(known, other)
    text = "the same operators read each other otherwise"
    if missing and strange:
        text = (
            f"its first difference is {strange!r} ({other.kinds[strange]} B), where the "
            f"placement has {missing!r} ({known.kinds[missing]} B)"
        )
        if drop_weights(known.kinds[missing]) == drop_weights(other.kinds[strange]):
            return (
                f"{text}. Weights of another precision, as in a copy compressed to f16, need their "
                "own plan: load the file that was planned, or plan this one"
            )
    elif strange:
        text = f"the placement has nothing for {strange!r} ({other.kinds[strange]} B)"
    elif missing:
        text = f"it has nothing for {missing!r} ({known.kinds[missing]} B) of the placement"
    return (
        f"{text}. Load the model with the shapes for which the placement was made, as by "
        "load_model(file, shapes={...})"
    )


def find_difference(known: Structure, other: Structure) -> tuple[str | None, str | None]:
    """Find the first operator of each structure that the other lacks, preferably not light."""
    levels: list[tuple[Structure, Structure, Callable[[str], str]]] = [
        (known.anchors, other.anchors, drop_weights),
        (known.anchors, other.anchors, str),
        (known, other, str),
    ]
    for one, two, describe in levels:
        numbers: dict[object, int] = {}
        first, second = (
            number(of.kinds, of.reads, {n: describe(kind) for n, kind in of.kinds.items()}, numbers)
            for of in (one, two)
        )
        found = find_extra(first, second), find_extra(second, first)
        if any(found):
            return found
    return None, None


def find_extra(numbers: Mapping[str, int], others: Mapping[str, int]) -> str | None:
    """Find the first operator whose number the others have less often."""
    left = Counter(others.values())
    for name, of_name in numbers.items():
        if not left[of_name]:
            return name
        left[of_name] -= 1
    return None
