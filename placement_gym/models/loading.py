"""Loading of built-in models, files and ``ov.Model``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import UserError, is_path, list_neighbours, suggest
from placement_gym.models.built_in import BUILT_IN, EXAMPLES, GENERATED, build, match_built_in
from placement_gym.models.inputs import read_own
from placement_gym.models.shapes import (
    InputsArgument,
    Shapes,
    SizesError,
    UnsupportedModelError,
    bind_shapes,
    drop_lower_bounds,
    find_data_shapes,
    name_added_nodes,
    shape_nodes,
)
from placement_gym.models.stateful import bind_batch, is_stateful
from placement_gym.models.union import parse_rate

if TYPE_CHECKING:
    import openvino as ov


class ModelNotFoundError(UserError, FileNotFoundError):
    """The model is neither a built-in name nor a file."""


@contextmanager
def model_of_placement(given: Any) -> Iterator[None]:
    """Explain errors of loading a placement's model; ``given`` is the user's model or None.

    Raises:
        UnsupportedModelError: Sizes of inputs are missing or out of place.
        ModelNotFoundError: There is no such model; without ``given`` the remedy is to give it.
    """
    try:
        yield
    except SizesError as error:
        raise UnsupportedModelError(error.remedy) from error
    except ModelNotFoundError as error:
        if given is not None:
            raise
        raise ModelNotFoundError(
            f"the placement was made for a file: name it by --model FILE (model=FILE): {error}"
        ) from error


def load_model(
    model: str | Path | ov.Model | Sequence[Any],
    shapes: Shapes | None = None,
    inputs: InputsArgument | None = None,
    extension: str | Path | None = None,
) -> ov.Model:
    """Load the model to place, with unique friendly names and known sizes of inputs.

    Args:
        model: A built-in name: ``"resnet"``, ``"bert-8"`` (tokens), ``"bert-8-fp16"`` (compressed
            weights), ``"gpt"`` (four small layers), ``"gpt-12"`` (layers of GPT-2), ``"gpt-int8"``,
            ``"gpt-int4"``, ``"moe-16"`` (experts in each of four layers), ``"cnn-int8"`` (quantised
            weights and activations), ``"mobilenet-50"`` (width in percent) or ``"vit-12"``
            (layers); the path of a file that OpenVINO reads; or a model, which is cloned. A list
            makes a union; ``"resnet:2"`` in it runs twice as often as others, and
            ``"resnet+bert-8:2"`` is a union of built-in models.
        shapes: Shapes that bind dynamic dimensions, see ``Shapes``.
        inputs: Your inputs, see ``InputsArgument``; dimensions that stay dynamic get their sizes.
            In a union, names of inputs begin with the model's, as in ``"bert-8/input_ids"``, also
            in ``shapes``.
        extension: Library of operators that OpenVINO lacks, for ``ov.Core.add_extension``. Its code
            is run.

    Raises:
        ModelNotFoundError: It is neither a built-in name nor a file.
        UnsupportedModelError: It is a generated graph, OpenVINO cannot read it, or it has no state
            and inputs of unknown sizes.
        UserError: The built-in model does not have the option.
    """
    import openvino as ov

    models = list_models(model)
    if len(models) > 1:
        from placement_gym.models.joining import load_union

        return load_union(models, shapes, inputs, partial(load_model, extension=extension))
    ((model, _),) = models
    if not isinstance(model, (str, Path, ov.Model)) or str(model).endswith(".json"):
        raise UnsupportedModelError(
            f"{model!r:.200} can only be simulated, as in DevicePlacementSim-v0: to measure, name "
            "a model: a built-in name, a file or an ov.Model"
        )
    match = None if isinstance(model, ov.Model) else match_built_in(model)
    if match:
        return prepare(build(match), shapes, inputs)
    from placement_gym.models.model_files import make_models_picklable, read_file

    # The user's model is not changed, and may be sent to other processes.
    if isinstance(model, ov.Model):
        make_models_picklable()
        return prepare(model.clone(), shapes, inputs)
    if not is_path(model):
        raise explain_missing(str(model))
    prepared = prepare(read_file(Path(model), extension), shapes, inputs)
    prepared.set_friendly_name(Path(model).stem)
    return prepared


def list_models(model: Any) -> list[tuple[Any, int]]:
    """List the models of an argument with their rates, or raise ``UserError``."""
    if isinstance(model, str) and "+" in model and not is_path(model):
        parts = [parse_rate(part) for part in model.split("+")]
        return parts if all(match_built_in(part) for part, _ in parts) else [(model, 1)]
    if not isinstance(model, (list, tuple)):
        return [(model, 1)]
    if not model:
        raise UserError("the list of models is empty: name one or more, as in ['resnet', 'bert-8']")
    parts = [parse_rate(part) for part in model]
    if len(parts) == 1 and parts[0][1] > 1:
        raise UserError(
            f"{model[0]!r:.200}: a rate is relative to other models: name another model, or omit "
            "the rate"
        )
    return parts


def explain_missing(model: str) -> UserError:
    if GENERATED.match(model) and model[-1].isdigit():
        return UnsupportedModelError(
            f"{model!r:.80} is a generated graph, which can only be simulated, as in "
            "DevicePlacementSim-v0"
        )
    near = suggest(model, (*BUILT_IN, *EXAMPLES, *list_neighbours(model)))
    remedy = f"{near} Give" if near else ": give"
    return ModelNotFoundError(
        f"no model {model!r:.200}{remedy} a file that OpenVINO reads, or one of "
        f"{', '.join(BUILT_IN)} ('bert-8' for 8 tokens, 'gpt-12' for 12 layers, '-fp16' for "
        "compressed weights)"
    )


def is_model_file(model: str | Path | ov.Model | Sequence[Any]) -> bool:
    """Return whether ``load_model`` would read a file."""
    import openvino as ov

    return any(
        not isinstance(part, ov.Model) and not match_built_in(part) and is_path(part)
        for part, _ in list_models(model)
    )


def prepare(
    model: ov.Model, shapes: Shapes | None = None, inputs: InputsArgument | None = None
) -> ov.Model:
    """Check that a model can be placed and make its friendly names unique, in place.

    A dynamic batch of a model with state becomes that of another input, or one. See ``load_model``
    for arguments and errors.
    """
    make_names_unique(model)
    node_names = {node.get_friendly_name() for node in model.get_ops()}
    if shapes:
        bind_shapes(model, shapes)
    if is_stateful(model):
        bind_batch(model)
    else:
        own = read_own(model, inputs)
        for given in (own.sizes, *own.other_sizes):
            if sizes := find_data_shapes(model, given):
                shape_nodes(model, sizes)  # raises if the model does not accept them
        drop_lower_bounds(model)
    name_added_nodes(n for n in model.get_ordered_ops() if n.get_friendly_name() not in node_names)
    make_names_unique(model)
    return model


def make_names_unique(model: ov.Model) -> None:
    """Number the friendly names that several nodes have, in place."""
    used_names: set[str] = set()
    for node in model.get_ordered_ops():
        name, copies = node.get_friendly_name(), count(2)
        while name in used_names:
            name = f"{node.get_friendly_name()}_{next(copies)}"
        node.set_friendly_name(name)
        used_names.add(name)
