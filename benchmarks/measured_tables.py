"""Print the tables of rows of ``throughput_measured.py``.

    python benchmarks/measured_tables.py docs/results/throughput-measured-rows.jsonl

Rates are medians of compilations and windows; ± is half of the 95 % interval of a median ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from common import Row, make_parser, read_rows
from summaries import Tables, print_tables


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path, help="throughput-measured-rows.jsonl")
    rows = read_rows(parser.parse_args().rows)
    print_tables(TABLES, rows)


def list_rates(model: str, rows: Sequence[Row]) -> list[Row]:
    """Requests a second of each arm of a model."""
    return [
        {
            model: row["arm"],
            "requests a second": f"{row['requests_per_s']:.1f}",
            "cores in use": f"{row['cores']:.2f}",
            "x one thread": describe_ratio(row["ratio_to_one_thread"], row["noise_to_one_thread"]),
            "x two streams": describe_ratio(row["ratio_to_two_streams"], row["noise"]),
        }
        for row in rows
        if row["model"] == model
    ]


def describe_ratio(ratio: float, noise: float) -> str:
    """A ratio with its interval; an arm's to itself has none."""
    return f"{ratio:.2f} ± {noise:.2f}" if noise else f"{ratio:.2f}"


TABLES: Tables = {
    "resnet": partial(list_rates, "resnet"),
    "gpt": partial(list_rates, "gpt"),
    "resnet:2+bert-8": partial(list_rates, "resnet:2+bert-8"),
}
"""Model -> the table."""


if __name__ == "__main__":
    main()
