"""Files that someone or something has changed: bytes, and values of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

NUMBERS = ("1e400", "-1e400", "NaN", "Infinity", "1e40", "-1", "0", "9" * 30, "9" * 5000, "0.5")
TEXTS = ("", "x" * 100_000, "\0", "\x1b[31m", "../../X", "\ud800", "é", "[red]", "CPU", "1")
SPLICES = (
    *(b"\xff", b"\0", b"\xef\xbb\xbf", b"\n", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":"),
    *(b"&a ", b"*a ", b"<<: ", b"!!python/name:os.system ", b"!!bool x ", b"- ", b"? ", b"\t"),
    *(b"2001-99-99", b"1e400", b"NaN", b".inf", b"null", b"true", b"9" * 5000),
    b"1:" * 300 + b"1.5",
    *(b"[" * 3000, b"{" * 3000, b'{"a":' * 3000, b"- " * 3000, b"x" * 100_000),
)
YAML_BOMB = b"a: &a [x, x]\n" + b"".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n".encode()
    for a, b in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)


class Raw(str):
    """Text that is written into JSON as it is."""


def mutate(content: bytes, random: Random) -> bytes:
    """Change one to three things in a file; where it is JSON, values more often than bytes."""
    kinds: list[Callable[[bytes, Random], bytes]] = [change_bytes, *[change_values] * 3]
    for _ in range(random.randint(1, 3)):
        content = random.choice(kinds)(content, random)
    return content[: 2**20]


def change_bytes(content: bytes, random: Random) -> bytes:
    """Overwrite, remove, repeat, insert or cut somewhere."""
    start = random.randrange(len(content) + 1)
    end = min(start + random.choice((1, 2, 10, 200)), len(content))
    part = content[start:end]
    return random.choice(
        (
            content[:start] + random.randbytes(end - start) + content[end:],
            content[:start] + content[end:],
            content[:end] + part * random.choice((1, 3, 50)) + content[end:],
            content[:start] + random.choice(SPLICES) + content[start:],
            content[:start] + random.choice(SPLICES) + content[end:],
            content[:start],
            YAML_BOMB + content,
        )
    )


def change_values(content: bytes, random: Random) -> bytes:
    """Replace, remove or repeat one value of JSON, of one line where there is one a line."""
    lines = content.split(b"\n")
    single = len(lines) > 1 and lines[0].endswith(b"}") and lines[0].startswith(b"{")
    index = random.randrange(len(lines)) if single else 0
    try:
        values = json.loads(lines[index] if single else content)
    except (ValueError, RecursionError):
        return change_bytes(content, random)
    places = list(walk(values))
    if not places:
        return change_bytes(content, random)
    parent, key = random.choice(places)
    change_value(parent, key, random)
    try:
        changed = write(values).encode("utf-8", "surrogatepass")
    except RecursionError:
        return change_bytes(content, random)
    return b"\n".join([*lines[:index], changed, *lines[index + 1 :]]) if single else changed


def walk(values: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    waiting = [values]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            for key in list(item) if isinstance(item, dict) else range(len(item)):
                yield item, key
                waiting.append(item[key])


def change_value(parent: Any, key: Any, random: Random) -> None:
    """Replace, remove or repeat a value, or give a key another name."""
    kind = random.randrange(5)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, list):
        parent += [parent[key]] * random.choice((1, 2, 1000))
    elif kind == 2 and isinstance(parent, dict):
        parent[random.choice(TEXTS)] = parent.pop(key)
    else:
        parent[key] = random.choice(
            (
                *(Raw(number) for number in NUMBERS),
                *TEXTS,
                *(None, True, False, [], {}, [[]], [{}], {"a": 1}, [1, "a"], [None] * 1000),
                Raw("[" * 500 + "]" * 500),
                Raw('{"a":' * 500 + "1" + "}" * 500),
            )
        )


def write(values: Any) -> str:
    """JSON, in which ``Raw`` stands for itself."""
    if isinstance(values, Raw):
        return str(values)
    if isinstance(values, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {write(v)}" for k, v in values.items()) + "}"
    if isinstance(values, list):
        return "[" + ", ".join(map(write, values)) + "]"
    return json.dumps(values)
