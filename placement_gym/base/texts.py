"""Foreign text, from models, labels and errors, as terminals and figures show it."""

from __future__ import annotations

from collections.abc import Sequence


def make_printable(text: object) -> str:
    """The text in one line; control characters become escapes, as ``ascii`` writes them."""
    words = " ".join(str(text).split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)


def make_lines_printable(text: object) -> str:
    """As ``make_printable``, line by line."""
    return "\n".join(
        "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
        for line in str(text).splitlines()
    )


def escape_figure_text(text: object) -> str:
    """Text that matplotlib shows unchanged, without mathematics; lines stay."""
    return make_lines_printable(text).replace("$", r"\$")


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """``"a"``, ``"a and b"``, ``"a, b and c"``."""
    *first, final = words
    return f"{', '.join(first)} {conjunction} {final}" if first else final


def name_first(names: Sequence[str]) -> str:
    """``"'a'"``, ``"'a' and 2 more"``."""
    return f"{names[0]!r}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def last_line(error: BaseException) -> str:
    """The last line of an error's message, or the name of its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def format_bytes(size: float, digits: int = 1) -> str:
    """``"17.3 MB"``, ``"4.2 kB"`` or ``"64 B"``."""
    if size >= 1e5:
        return f"{size / 1e6:.{digits}f} MB"
    return f"{size / 1e3:.{digits}f} kB" if size >= 1e3 else f"{size:.0f} B"


def format_bytes_apart(one: float, other: float) -> tuple[str, str]:
    """Two sizes with as many digits as they need to differ, or in bytes."""
    texts = ((format_bytes(one, digits), format_bytes(other, digits)) for digits in range(1, 7))
    return next((pair for pair in texts if pair[0] != pair[1]), (f"{one:.0f} B", f"{other:.0f} B"))


def format_ms(latency_ms: float) -> str:
    """A latency with four significant digits; whole where it exceeds 1,000."""
    return f"{latency_ms:.0f}" if latency_ms >= 999.95 else f"{latency_ms:#.4g}"
