"""YAML as plain values."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from placement_gym.base.errors import UserError

PLACE = re.compile('in "<[^>"]*>", ')
"""What the YAML library calls a text that was in memory."""


class UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a duplicate key, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set[str]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                line = key.start_mark.line + 1
                raise ValueError(f"duplicate key {key.value!r:.60} (line {line})")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse_yaml(content: bytes) -> Any:
    """Plain values from one YAML document without tags.

    Raises:
        UserError: It is not valid YAML, and the message has the line; or it is too deep.
    """
    try:
        return yaml.load(content, UniqueKeyLoader)
    except RecursionError as error:
        raise UserError("not valid YAML: it has too many levels") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # 2001-99-99 is a ValueError
        raise UserError(f"not valid YAML: {PLACE.sub('in ', str(error))}") from error
