"""Whether devices get second names, so that HETERO keeps the submodels of a placement apart."""

from __future__ import annotations

from collections.abc import Sequence

from placement_gym.base import SPLITS, UserError, check_choice
from placement_gym.hardware import ALIASABLE, DeviceSpec


def uses_aliases(split: str, specs: Sequence[DeviceSpec]) -> bool:
    """Return whether a split mode gives alias names to the devices that can have them.

    Raises:
        ValueError: Unknown mode, or aliases of a plugin that cannot be registered twice.
    """
    check_choice("split", split, SPLITS)
    unaliasable = [spec.name for spec in specs if spec.kind not in ALIASABLE]
    if split == "alias" and unaliasable:
        raise UserError(
            f"{unaliasable} cannot be given a second name: use split='hetero' or 'auto'"
        )
    return split != "hetero"
