# White-box tests of graph
"""Operators are found again by the structure of their graph."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

import pytest

from placement_gym.base import UserError
from placement_gym.graph import OpGraph, Structure, describe_difference, match
from placement_gym.graph.structure import pair

RELU, MATMUL = "Relu f32[1,8] 0", "MatMul f32[1,8] 1024"


def chain(*kinds: str) -> Structure:
    """Operators a, b, c and so on, each of which reads the one before."""
    names = "abcdefgh"[: len(kinds)]
    reads = {name: tuple(names[index - 1 : index]) for index, name in enumerate(names)}
    return Structure(dict(zip(names, kinds, strict=True)), reads)


def shuffle(structure: Structure, rng: random.Random) -> tuple[Structure, dict[str, str]]:
    """The same operators under new names in another topological order, and the new names."""
    waiting = {name: len(sources) for name, sources in structure.reads.items()}
    ready, order = [name for name, count in waiting.items() if not count], list[str]()
    while ready:
        order.append(ready.pop(rng.randrange(len(ready))))
        for reader in structure.readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    new = {name: f"n{index}" for index, name in enumerate(order)}
    reads = {new[name]: tuple(new[one] for one in structure.reads[name]) for name in order}
    return Structure({new[name]: structure.kinds[name] for name in order}, reads), new


def draw(rng: random.Random) -> Structure:
    """Up to three equal random graphs of few kinds, joined at their ends."""
    n, kinds, reads = rng.randint(2, 20), dict[str, str](), dict[str, Sequence[str]]()
    drawn = [
        (rng.choice([RELU, MATMUL]), {rng.randrange(i) for _ in range(rng.randint(0, 2)) if i})
        for i in range(n)
    ]
    copies = range(rng.randint(1, 3))
    for copy in copies:
        for i, (kind, sources) in enumerate(drawn):
            kinds[f"{copy}/{i}"] = kind
            reads[f"{copy}/{i}"] = tuple(f"{copy}/{source}" for source in sources)
    ends = tuple(f"{copy}/{n - 1}" for copy in copies)
    return Structure({**kinds, "end": RELU}, {**reads, "end": ends})


def is_isomorphism(names: Mapping[str, str], known: Structure, other: Structure) -> bool:
    return set(names.values()) == set(known.kinds) and all(
        known.kinds[names[name]] == kind
        and {names[one] for one in other.reads[name]} == set(known.reads[names[name]])
        for name, kind in other.kinds.items()
    )


def test_graphs_with_equal_branches_are_found_in_any_order() -> None:
    rng = random.Random(0)
    for _ in range(100):
        known = draw(rng)
        other, _ = shuffle(known, rng)
        names = match(known, other)
        assert names is not None
        assert is_isomorphism(names, known, other)


def test_a_network_is_found_in_any_order(graph_of: Callable[[str, str], OpGraph]) -> None:
    known = Structure.from_graph(graph_of("inception", "folded"))
    other, _ = shuffle(known, random.Random(0))
    names = pair(known, other)
    assert names is not None
    assert is_isomorphism(names, known, other)


def test_operators_that_something_distinguishes_are_found_exactly() -> None:
    known = chain(*[RELU, MATMUL] * 4)
    other, new = shuffle(known, random.Random(0))
    assert match(known, other) == {name: old for old, name in new.items()}


@pytest.mark.parametrize(
    ("kinds", "followed"),
    [
        (["Convert f32[1,8] 0", MATMUL, RELU], "aab"),
        (["Convert f32[1,8] 0", "Subtract f32[1,8] 4", MATMUL, RELU], "aaab"),
        ([MATMUL, RELU, "Convert f16[1,8] 0", "Transpose f16[8,1] 16"], "abbb"),
        ([MATMUL, "Swish f32[1,8] 0", RELU], "abb"),
    ],
)
def test_additions_of_openvino_get_the_name_of_a_neighbour(kinds: list[str], followed: str) -> None:
    other = chain(*kinds)
    assert match(chain(MATMUL, RELU), other) == dict(zip(other.kinds, followed, strict=True))


def test_branches_of_one_shape_are_told_apart_by_their_weights() -> None:
    small, large = "Convolution f32[1,8,4,4] 1024", "Convolution f32[1,8,4,4] 9216"
    known = Structure({"s": small, "l": large}, {"s": (), "l": ()})
    image = "Convert f32[1,8,4,4] 0"
    other = Structure({"u": image, "a": large, "b": small}, {"u": (), "a": ("u",), "b": ("u",)})
    assert match(known, other) == {"a": "l", "b": "s", "u": "l"}


def test_a_light_operator_keeps_its_place_where_another_is_missing() -> None:
    known = chain(MATMUL, "MVN f32[1,8] 24", "Multiply f32[1,8] 32", RELU)
    assert match(known, chain(MATMUL, "MVN f32[1,8] 8", RELU)) == {"a": "a", "b": "b", "c": "d"}


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (chain(MATMUL, MATMUL), r"'b' \(MatMul f32\[1,8\] 1024 B\), where .* has 'b' \(Relu"),
        (chain(MATMUL), r"it has nothing for 'b' \(Relu f32\[1,8\] 0 B\)"),
        (chain(MATMUL, RELU, RELU), r"the placement has nothing for 'c' \(Relu f32\[1,8\] 0 B\)"),
        (chain("MatMul f32[1,8] 512", RELU), r"'a' \(.* 512 B\), where .* 'a' \(.* 1024 B\)"),
        (chain("Convert f32[1,8] 0"), r"it has nothing for 'a' \(MatMul"),
        (
            Structure({"a": MATMUL, "b": RELU}, {"a": (), "b": ()}),
            r"'b' \(Relu f32\[1,8\] 0 B\), where .* has 'b'",
        ),
    ],
)
def test_another_graph_is_refused_with_its_first_difference(
    other: Structure, difference: str
) -> None:
    known = chain(MATMUL, RELU)
    assert match(known, other) is None
    assert re.search(difference, describe_difference(known, other))


def test_graphs_of_light_operators_alone_have_to_be_equal() -> None:
    add = "Add f32[1,8] 0"
    assert match(chain(add), chain(add)) == {"a": "a"}
    assert match(chain(add), chain(add, add)) is None


def test_a_file_in_which_an_operator_reads_a_later_one_is_refused() -> None:
    known = chain(MATMUL, RELU)
    values = known.to_json()
    assert Structure.from_json(values["kinds"], values["reads"]) == known
    with pytest.raises(UserError, match="'a' reads 'b', which does not stand before it"):
        Structure.from_json({"a": RELU, "b": RELU}, {"a": ["b"]})
