"""Names of built-in models, and building one."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from placement_gym.base import UserError, join_words

if TYPE_CHECKING:
    import openvino as ov

GENERATED = re.compile(
    r"(synthetic-(layered|series-parallel)|unrolled-lstm|stacked-bert)-\d|family-"
)
EXAMPLES = (
    "bert-8",
    "gpt-12",
    "vit-12",
    "synthetic-layered-1000",
    "synthetic-series-parallel-1000",
    "unrolled-lstm-1000",
    "stacked-bert-1000",
)
"""Further names to suggest."""
NUMBERS = {
    "bert": "length",
    "gpt": "layers",
    "mobilenet": "percent",
    "moe": "experts",
    "vit": "layers",
}
"""Model -> argument of ``build`` that the number in a name sets."""
BUILT_IN = ("tiny", "resnet", "inception", "cnn", *NUMBERS)
NAME = re.compile(r"(?P<base>[a-z]+)(-(?P<number>\d+))?(-(?P<weights>fp16|int8|int4))?")
BITS = {"int8": 8, "int4": 4}
"""End of a name -> bits of weights that are stored as integers."""
INTEGERS = {"cnn": ("int8",), "gpt": ("int8", "int4"), "moe": ("int8", "int4")}
"""Models with such weights. cnn-int8 also has quantised activations."""


def match_built_in(model: str | Path) -> re.Match[str] | None:
    """Match a built-in name, which hides files of that name; None for others."""
    match = NAME.fullmatch(str(model))
    return match if match and match["base"] in BUILT_IN else None


def build(name: re.Match[str]) -> ov.Model:
    base, number = name["base"], name["number"]
    options: dict[str, int | bool] = {"compressed": name["weights"] == "fp16"}
    if number and base not in NUMBERS:
        raise UserError(
            f"{base} takes no number, only {join_words(sorted(NUMBERS))} do, as in 'bert-8'"
        )
    if number:
        options[NUMBERS[base]] = int(number)
    if name["weights"] in BITS:
        if name["weights"] not in INTEGERS.get(base, ()):
            built_in = [
                f"{name}-{weights}" for name, kinds in INTEGERS.items() for weights in kinds
            ]
            raise UserError(
                f"{base} has no {name['weights']} weights, only {join_words(built_in)} do; '-fp16' "
                "compresses others"
            )
        options["bits"] = BITS[name["weights"]]
    model: ov.Model = import_module(f"placement_gym.models.{base}").build(**options)
    model.set_friendly_name(name.string)
    return model
