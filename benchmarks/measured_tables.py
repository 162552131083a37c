"""Print the tables of rows of ``throughput_measured.py``.

    python benchmarks/measured_tables.py docs/results/throughput-measured-rows.jsonl

Rates are medians of compilations and windows; ± is half of the 95 % interval of a median ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from common import Row, make_parser, read_rows
from summaries import Tables, group_by, print_tables

PIPELINE = "Pipeline, 3 in flight"
"""The arm by which predictions are judged."""


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


def compare_predictions(rows: Sequence[Row]) -> list[Row]:
    """Gain of each plan over one thread: predicted, and measured in two ways."""
    lines = []
    for (model,), arms in group_by(rows, "model").items():
        (row,) = (row for row in arms if row["arm"] == PIPELINE)
        lines.append(
            {
                "model": model,
                "a stage costs, ms": ", ".join(f"{ms:.1f}" for ms in row["stage_ms"]),
                "predicted with it": f"{row['predicted_alone_ms'] / row['predicted_plan_ms']:.2f}",
                "without it": f"{row['predicted_without_stages']:.2f}",
                "by processor time": (
                    f"{row['processor_alone_ms'] / max(row['processor_stages_ms']):.2f}"
                ),
                f"by the clock, {PIPELINE}": describe_ratio(
                    row["ratio_to_one_thread"], row["noise_to_one_thread"]
                ),
            }
        )
    return lines


TABLES: Tables = {
    "resnet": partial(list_rates, "resnet"),
    "gpt": partial(list_rates, "gpt"),
    "stages": compare_predictions,
}
"""Title -> the table."""


if __name__ == "__main__":
    main()
