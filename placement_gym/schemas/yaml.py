"""YAML as plain values, within bounds: nested aliases and deep nesting cost no time."""

from __future__ import annotations

import re
from typing import Any

import yaml

from placement_gym.errors import UserError
from placement_gym.schemas.reading import MAX_DEPTH, MAX_NODES, MAX_TEXT

PLACE = re.compile('in "<[^>"]*>", ')
"""What the YAML library calls a text that was in memory."""
LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(content: bytes) -> Any:
    """Plain values from one YAML document without tags.

    Raises:
        UserError: It is not valid YAML, too deep or too large with its aliases; the message has
            the line.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"it is not a text file, as byte {error.start + 1} shows") from error
    try:
        check_events(text)
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            count_values(node)
            check_keys(node)
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except UserError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # 2001-99-99 is a ValueError
        raise UserError(f"not valid YAML: {PLACE.sub('in ', str(error))}") from error


def check_events(text: str) -> None:
    """Raise if the text is too deep to be composed, or has tags, which name Python types."""
    depth = 0
    for event in yaml.parse(text, LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        line = getattr(event.start_mark, "line", 0) + 1
        if depth > MAX_DEPTH:
            raise UserError(f"not valid here: more than {MAX_DEPTH} levels in line {line}")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise UserError(f"not valid here: the tag {tag!r:.60} in line {line}")


def check_keys(root: yaml.Node | None) -> None:
    """Raise if a mapping has a key twice, of which YAML would silently take the last."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            keys = set[tuple[str, str]]()
            for key, value in node.value:
                waiting.append(value)
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if (key.tag, key.value) in keys:
                    line = key.start_mark.line + 1
                    raise UserError(f"{key.value!r:.60} is there twice, again in line {line}")
                keys.add((key.tag, key.value))


def count_values(root: yaml.Node | None) -> None:
    """Raise if there are too many values, characters or levels; an alias counts at each use."""
    left, left_text, waiting = MAX_NODES, MAX_TEXT, [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        left -= 1
        left_text -= len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        if min(left, left_text) < 0 or depth > MAX_DEPTH:
            raise UserError(
                f"not valid here: with its aliases it has more than {MAX_NODES} values, "
                f"{MAX_TEXT} characters or {MAX_DEPTH} levels"
            )
        if isinstance(node, yaml.MappingNode):
            waiting += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(part, depth + 1) for part in node.value]
