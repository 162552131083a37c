"""Texts and numbers for terminals and figures."""

from __future__ import annotations

from collections.abc import Sequence


def make_printable(text: object) -> str:
    """Join lines and escape control characters, as ``ascii`` does."""
    return escape_control(" ".join(str(text).split()))


def make_lines_printable(text: object) -> str:
    """Escape control characters; keep lines."""
    return "\n".join(map(escape_control, str(text).splitlines()))


def escape_control(line: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def escape_figure_text(text: object) -> str:
    """Escape text for matplotlib, which else reads ``$`` as mathematics."""
    return make_lines_printable(text).replace("$", r"\$")


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """Join words as in ``"a"``, ``"a and b"`` or ``"a, b and c"``."""
    *first, final = words
    return f"{', '.join(first)} {conjunction} {final}" if first else final


def name_first(names: Sequence[str]) -> str:
    """Return ``"'a'"`` or ``"'a' and 2 more"``."""
    return f"{names[0]!r}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message, or the name of its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def format_bytes(size: float, digits: int = 1) -> str:
    """Format a size as in ``"17.3 MB"``, ``"4.2 kB"`` or ``"64 B"``."""
    if size >= 1e5:
        return f"{size / 1e6:.{digits}f} MB"
    return f"{size / 1e3:.{digits}f} kB" if size >= 1e3 else f"{size:.0f} B"


def format_bytes_apart(one: float, other: float) -> tuple[str, str]:
    """Format two sizes with as many digits as show that they differ."""
    texts = ((format_bytes(one, digits), format_bytes(other, digits)) for digits in range(1, 7))
    return next((pair for pair in texts if pair[0] != pair[1]), (f"{one:.0f} B", f"{other:.0f} B"))


def format_ms(latency_ms: float) -> str:
    """Format a latency with four significant digits, from 1,000 ms without decimals."""
    return f"{latency_ms:.0f}" if latency_ms >= 999.95 else f"{latency_ms:#.4g}"
