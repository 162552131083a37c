"""Reading, writing and pickling of models."""

from __future__ import annotations

import copyreg
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import (
    FileError,
    UserError,
    is_file,
    is_path,
    last_line,
    make_temporary_folder,
    replace_file,
)
from placement_gym.models.shapes import UnsupportedModelError, name_added_nodes

if TYPE_CHECKING:
    import openvino as ov

ORIGIN = re.compile(r"Exception from \S+:\d+:\s*")
"""Source line in errors of OpenVINO."""
UNKNOWN = re.compile(r"unsupported opset|not support|No translator")
"""Part of OpenVINO's errors about unknown operators."""
EXTENSION_REMEDY = ". If these are your own operators, name their library: --extension FILE"
MODEL_FILES = (".xml", ".onnx", ".tflite", ".pb", ".pdmodel")


def read_file(path: Path, extension: str | Path | None) -> ov.Model:
    """Read a model's file with reproducible names, or raise ``UnsupportedModelError``."""
    check_content(path)
    core = make_core(extension)
    try:
        model = core.read_model(path)
        # Converters number some names by a counter of the process: they differ when read again.
        if path.suffix != ".xml":
            again = core.read_model(path)
            pairs = zip(model.get_ordered_ops(), again.get_ordered_ops(), strict=False)
            name_added_nodes(
                one for one, two in pairs if one.get_friendly_name() != two.get_friendly_name()
            )
    except RuntimeError as error:
        reason = explain_weights(path, str(error)) or ORIGIN.sub("", str(error)).strip()
        remedy = "" if extension else EXTENSION_REMEDY * bool(UNKNOWN.search(reason))
        raise UnsupportedModelError(f"OpenVINO cannot read {path}: {reason}{remedy}") from error
    return model


def make_core(extension: str | Path | None) -> ov.Core:
    import openvino as ov

    core = ov.Core()
    if extension is None:
        return core
    if not is_file(extension):
        raise UserError(f"no extension {str(extension)!r:.200}: name the library of your operators")
    try:
        core.add_extension(str(extension))
    except RuntimeError as error:
        raise UserError(
            f"OpenVINO cannot load the extension {extension}: {last_line(error)}: build it with "
            f"the headers of OpenVINO {ov.__version__}"
        ) from error
    return core


def check_content(path: Path) -> None:
    """Raise ``UnsupportedModelError`` for paths that OpenVINO refuses without a reason."""
    try:
        path.name.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedModelError(
            f"{path.name!r:.200} is not in UTF-8: rename the file"
        ) from error
    if not path.is_file() and not path.is_dir():
        raise UnsupportedModelError(f"{str(path)!r:.200} is neither a file nor a folder")
    if path.is_dir() and not (path / "saved_model.pb").exists():
        files = sorted(file for file in path.iterdir() if file.suffix in MODEL_FILES)
        near = f"; did you mean {str(files[0])!r}?" if files else ""
        raise UnsupportedModelError(f"{str(path)!r:.200} is a folder: name a file in it{near}")
    if path.is_file() and not path.stat().st_size:
        raise UnsupportedModelError(f"{str(path)!r:.200} is empty: write or export it again")


def explain_weights(path: Path, error: str) -> str:
    """Explain an error about weights, which does not name their file; empty for others."""
    if "bin file" not in error:
        return ""
    weights = str(path.with_suffix(".bin"))
    if is_path(weights):
        return f"{weights!r:.200} is not the file that was written with it: copy both again"
    return f"its weights are missing: also copy {weights!r:.200}"


def save_model(model: ov.Model, path: Path) -> None:
    """Replace an ``.xml`` and its weights, or raise ``FileError`` and keep both."""
    with replace_file(path.with_suffix(".bin")) as weights, replace_file(path) as model_file:
        written = model_file.with_suffix(".bin")
        try:
            write_model(model, model_file, name=str(path))
            written.rename(weights)
        finally:
            written.unlink(missing_ok=True)


def write_model(model: ov.Model, path: Path, name: str = "") -> None:
    """Write an ``.xml`` and its weights, or raise ``FileError``, which names ``name``."""
    import openvino as ov

    try:
        ov.save_model(model, path, compress_to_fp16=False)
    except RuntimeError as error:  # it has no reason
        raise FileError(
            f"cannot write {name or str(path)!r}: its disk is full or read-only ({error})"
        ) from error


def make_models_picklable() -> None:
    """Register ``ov.Model`` with ``pickle``, for environments of a model in memory."""
    import openvino as ov

    copyreg.pickle(ov.Model, reduce_model)


def reduce_model(model: ov.Model) -> tuple[Any, tuple[bytes, bytes]]:
    """Reduce a model for ``pickle`` to the bytes of OpenVINO's files."""
    with make_temporary_folder() as folder:
        path = folder / "model.xml"
        write_model(model, path)
        return read_model, (path.read_bytes(), path.with_suffix(".bin").read_bytes())


def read_model(network: bytes, weights: bytes) -> ov.Model:
    """Read a model from the bytes of OpenVINO's files; pickled models call this function."""
    import openvino as ov

    make_models_picklable()
    return ov.Core().read_model(network, weights)
