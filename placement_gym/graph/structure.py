"""The structure of a graph, by which its operators are found again under other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from placement_gym.base.errors import UserError

if TYPE_CHECKING:
    from placement_gym.graph.operators import OpGraph

PREPROCESSING = frozenset(
    {
        "Clamp",
        "Concat",
        "Convert",
        "Divide",
        "Gather",
        "I420toBGR",
        "I420toRGB",
        "Interpolate",
        "Multiply",
        "NV12toBGR",
        "NV12toRGB",
        "Pad",
        "Reshape",
        "Slice",
        "Squeeze",
        "StridedSlice",
        "Subtract",
        "Transpose",
        "Unsqueeze",
    }
)
"""Types of the operators that OpenVINO's ``PrePostProcessor`` adds."""


@dataclass(frozen=True)
class Structure:
    """The operators of a graph in topological order, and what each reads.

    Attributes:
        kinds: Name -> type, element type, shape and bytes of weights, as in
            ``"Convolution f32[1,64,56,56] 36864"``; of a union also the number of its model.
        reads: Name -> the operators that it reads, which stand before it.
    """

    kinds: Mapping[str, str]
    reads: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, graph: OpGraph) -> Structure:
        names = graph.names
        rows = zip(
            names,
            graph.types,
            graph.element_types,
            graph.shapes,
            graph.weight_bytes.tolist(),
            graph.model_of.tolist(),
            strict=True,
        )
        return cls(
            {
                name: f"{kind} {element_type}{list(shape)} {weights or ''} {model or ''}".strip()
                for name, kind, element_type, shape, weights, model in rows
            },
            {
                name: tuple(names[source] for source in sources)
                for name, sources in zip(names, graph.predecessors(), strict=True)
            },
        )

    @classmethod
    def of_json(cls, kinds: Mapping[str, str], reads: Mapping[str, Sequence[str]]) -> Structure:
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

    def to_json(self) -> dict[str, dict[str, str] | dict[str, list[str]]]:
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

    def without(self, removed: Collection[str]) -> Structure:
        """The structure of the other operators."""
        return Structure(
            {name: kind for name, kind in self.kinds.items() if name not in removed},
            {
                name: tuple(source for source in sources if source not in removed)
                for name, sources in self.reads.items()
                if name not in removed
            },
        )


def match(known: Structure, other: Structure) -> dict[str, str] | None:
    """Name in ``other`` -> name in ``known`` of the operator in its place.

    What preprocessing has added to ``other`` at inputs and outputs gets the name of its neighbour.

    Returns:
        None if the structures differ otherwise.
    """
    added = find_added(known, other)
    names = pair(known, other.without(added))
    if names is None:
        return None
    # Additions may follow each other: those at inputs are named from the model outwards, and then
    # those at outputs.
    for neighbours, outwards in ((other.readers, reversed(added)), (other.reads, added)):
        for name in outwards:
            near = (names[one] for one in neighbours[name] if one in names)
            if name not in names and (found := next(near, None)):
                names[name] = found
    return names if len(names) == len(other.kinds) else None


def find_added(known: Structure, other: Structure) -> list[str]:
    """Operators of preprocessing that ``other`` has in excess at its inputs and outputs."""
    excess = Counter(other.kinds.values()) - Counter(known.kinds.values())
    added: set[str] = set()
    for names, neighbours in (
        (other.kinds, other.reads),
        (reversed(other.kinds), other.readers),
    ):
        for name in names:
            kind = other.kinds[name]
            if (
                excess[kind]
                and kind.partition(" ")[0] in PREPROCESSING
                and name not in added
                and added.issuperset(neighbours[name])
            ):
                excess[kind] -= 1
                added.add(name)
    return [name for name in other.kinds if name in added]


def pair(known: Structure, other: Structure) -> dict[str, str] | None:
    """Name in ``other`` -> name in ``known`` of two equal structures; None if they differ."""
    colours = find_colours(known, other)
    known_order, other_order = map(walk, (known, other), colours)
    names = dict(zip(other_order, known_order, strict=False))
    # Colours and walks propose; that all edges agree is the proof.
    agree = len(known.kinds) == len(other.kinds) and all(
        other.kinds[name] == known.kinds[found]
        and {names[source] for source in other.reads[name]} == set(known.reads[found])
        for name, found in names.items()
    )
    return names if agree else None


def find_colours(*structures: Structure) -> list[dict[str, int]]:
    """Numbers of the operators, equal where nothing distinguishes them.

    The refinement of Weisfeiler and Leman (1968), along the edges of an acyclic graph at once.
    """
    colours: Sequence[Mapping[str, object]] = [one.kinds for one in structures]
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
    """The operators in the order of a depth-first walk by colours.

    Of operators that are alike the first one in topological order comes first, and the whole
    branch that it belongs to follows.
    """
    order: dict[str, None] = {}
    for start in sorted(structure.kinds, key=colours.__getitem__):
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name not in order:
                order[name] = None
                near = [*structure.readers[name], *structure.reads[name]]
                waiting += sorted(near, key=colours.__getitem__, reverse=True)
    return list(order)


def describe_difference(known: Structure, other: Structure) -> str:
    """Describe the first operator that only one of two structures has."""
    numbers: dict[object, int] = {}
    known_above, other_above = (
        number(one.kinds, one.reads, one.kinds, numbers) for one in (known, other)
    )
    missing, strange = find_first(known_above, other_above), find_first(other_above, known_above)
    if missing and strange:
        return (
            f"its first difference is {strange!r} ({other.kinds[strange]}), where the placement "
            f"has {missing!r} ({known.kinds[missing]})"
        )
    if strange:
        return f"the placement has nothing for {strange!r} ({other.kinds[strange]})"
    if missing:
        return f"it has nothing for {missing!r} ({known.kinds[missing]}) of the placement"
    return "the same operators read each other otherwise"


def find_first(ours: Mapping[str, int], theirs: Mapping[str, int]) -> str | None:
    """The first operator whose number others do not have, or not as often."""
    left = Counter(theirs.values())
    for name, number_ in ours.items():
        if not left[number_]:
            return name
        left[number_] -= 1
    return None
