"""Built-in models: their names, and building one."""

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
"""Names of other models, to suggest."""
NUMBERS = {
    "bert": "length",
    "gpt": "layers",
    "mobilenet": "percent",
    "moe": "experts",
    "vit": "layers",
}
"""Meaning of the number in a name for the module that builds the model."""
BUILT_IN = ("tiny", "resnet", "inception", "cnn", *NUMBERS)
NAME = re.compile(r"(?P<base>[a-z]+)(-(?P<number>\d+))?(-(?P<weights>fp16|int8|int4))?")
BITS = {"int8": 8, "int4": 4}
"""Bits of weights that are stored as integers, by the end of a model's name."""
INTEGERS = {"cnn": ("int8",), "gpt": ("int8", "int4"), "moe": ("int8", "int4")}
"""Built-in models that have such weights. The activations of cnn-int8 are quantised, too."""


def match_built_in(model: str | Path) -> re.Match[str] | None:
    """The parts of a built-in model's name, which hides files of that name; None for a path."""
    match = NAME.fullmatch(str(model))
    return match if match and match["base"] in BUILT_IN else None


def build(name: re.Match[str]) -> ov.Model:
    """Build a built-in model under the name that was given."""
    base, number = name["base"], name["number"]
    options: dict[str, int | bool] = {"compressed": name["weights"] == "fp16"}
    if number and base not in NUMBERS:
        raise UserError(
            f"{base} takes no number, as bert does in 'bert-8': only "
            f"{join_words(sorted(NUMBERS))} do"
        )
    if number:
        options[NUMBERS[base]] = int(number)
    if name["weights"] in BITS:
        if name["weights"] not in INTEGERS.get(base, ()):
            built_in = [
                f"{name}-{weights}" for name, kinds in INTEGERS.items() for weights in kinds
            ]
            raise UserError(
                f"{base} has no {name['weights']} weights, only {join_words(built_in)} are built "
                "in; '-fp16' compresses others"
            )
        options["bits"] = BITS[name["weights"]]
    model: ov.Model = import_module(f"placement_gym.models.{base}").build(**options)
    model.set_friendly_name(name.string)
    return model
