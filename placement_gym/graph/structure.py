"""The structure of a graph, by which its operators are found again under other names."""

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
"""Types that OpenVINO adds, fuses or removes as it converts or preprocesses a model: with products
of two activations, as in attention, all that is not compared where models differ in them."""
INDEX_BYTES = 256
"""Bytes of shapes and axes that equal operators may hold more or less of. Hand-tuned."""
INDEX_SHARE = 0.25
"""The same as a share of an operator's weights, of which others are half as large in f16.
Hand-tuned."""


@dataclass(frozen=True)
class Structure:
    """The operators of a graph in topological order, and what each reads.

    Attributes:
        kinds: Name -> type, first output and bytes of weights, as in
            ``"Convolution f32[1,64,56,56] 36864"``.
        reads: Name -> the operators that it reads, which stand before it.
    """

    kinds: dict[str, str]
    reads: Mapping[str, Sequence[str]]

    @classmethod
    def from_graph(cls, graph: OpGraph) -> Structure:
        """Make the structure of a graph."""
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
        """The structure in a file.

        Raises:
            UserError: An operator reads one that does not stand before it.
        """
        before: set[str] = set()
        for name in kinds:
            if strays := set(reads.get(name, ())) - before:
                raise UserError(f"{name!r} reads {min(strays)!r}, which does not stand before it")
            before.add(name)
        return cls(kinds, {name: tuple(reads.get(name, ())) for name in kinds})

    def to_json(self) -> dict[str, Any]:
        """Its part of a file."""
        reads = {name: list(sources) for name, sources in self.reads.items() if sources}
        return {"kinds": dict(self.kinds), "reads": reads}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """Name -> the operators that read it."""
        readers: dict[str, list[str]] = {name: [] for name in self.kinds}
        for name, sources in self.reads.items():
            for source in sources:
                readers[source].append(name)
        return readers

    @cached_property
    def anchors(self) -> Structure:
        """The operators that are not light; each reads the anchors that are above it."""
        above = self.find_nearest(self.kinds, self.reads)
        kinds = {name: kind for name, kind in self.kinds.items() if not is_light(kind)}
        return Structure(kinds, {name: sorted(above[name]) for name in kinds})

    def find_places(self, names: Mapping[str, str]) -> dict[str, object]:
        """Light operator -> what it is and which anchors, by their new names, are next to it."""
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
        """Name -> the nearest anchors on one side."""
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
    """The bytes of weights of a kind."""
    return int(kind.rpartition(" ")[2])


def drop_weights(kind: str) -> str:
    return kind.rpartition(" ")[0]


def are_alike(known: str, other: str) -> bool:
    """Return whether two kinds differ at most by constants that are not weights."""
    least, most = sorted((weigh(known), weigh(other)))
    near = most - least <= max(INDEX_BYTES, INDEX_SHARE * most)
    return near and drop_weights(known) == drop_weights(other)


def match(known: Structure, other: Structure) -> dict[str, str] | None:
    """Name in ``other`` -> name in ``known`` of the operator in its place.

    Where only light operators differ, those without a counterpart get the name of a neighbour: so
    does preprocessing.

    Returns:
        None if the structures differ otherwise.
    """
    return pair(known, other) or match_anchors(known, other)


def match_anchors(known: Structure, other: Structure) -> dict[str, str] | None:
    names = pair(known.anchors, other.anchors, exact=False)
    if not names:
        return None
    # Light operators of one kind between the same anchors are counterparts, in their order.
    counterparts: dict[object, list[str]] = {}
    for name, place in reversed(
        known.find_places({one: one for one in known.anchors.kinds}).items()
    ):
        counterparts.setdefault(place, []).append(name)
    for name, place in other.find_places(dict(names)).items():
        if counterparts.get(place):
            names[name] = counterparts[place].pop()
    # The others follow what reads them, and at outputs what they read.
    for order, neighbours in ((reversed(other.kinds), other.readers), (other.kinds, other.reads)):
        for name in order:
            near = (names[one] for one in neighbours[name] if one in names)
            if name not in names and (found := next(near, None)):
                names[name] = found
    return names if len(names) == len(other.kinds) else None


def pair(known: Structure, other: Structure, exact: bool = True) -> dict[str, str] | None:
    """Name in ``other`` -> name in ``known`` of two equal structures; None if they differ.

    Args:
        known: One structure.
        other: Another one.
        exact: Whether operators have equal weights, rather than similar ones.
    """
    colours = find_colours([known, other], exact)
    known_order, other_order = map(walk, (known, other), colours)
    names = dict(zip(other_order, known_order, strict=False))
    # Colours and walks propose; that all edges agree is the proof.
    agree = len(known.kinds) == len(other.kinds) and all(
        (eq if exact else are_alike)(known.kinds[found], other.kinds[name])
        and {names[source] for source in other.reads[name]} == set(known.reads[found])
        for name, found in names.items()
    )
    return names if agree else None


def find_colours(structures: Sequence[Structure], exact: bool) -> list[dict[str, int]]:
    """Numbers of the operators, equal where nothing, or nothing but weights, distinguishes them.

    The refinement of Weisfeiler and Leman (1968), along the edges of an acyclic graph at once.
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
    """Number operators by their colour and the numbers of their neighbours, which come first."""
    found: dict[str, int] = {}
    for name in names:
        key = (colours[name], *sorted(found[near] for near in neighbours[name]))
        found[name] = numbers.setdefault(key, len(numbers))
    return found


def walk(structure: Structure, colours: Mapping[str, int]) -> list[str]:
    """The operators in the order of a depth-first walk by colours, then weights.

    Of operators that are alike the first one in topological order comes first, and the whole
    branch that it belongs to follows.
    """
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
    """Describe the first difference of two structures, and what to do about it."""
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
    """The first operator that only one of two structures has, of each; if possible no light one."""
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
    """The first operator whose number the others lack, or have less often."""
    left = Counter(others.values())
    for name, of_name in numbers.items():
        if not left[of_name]:
            return name
        left[of_name] -= 1
    return None
