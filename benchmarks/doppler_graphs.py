"""DOPPLER's published graphs as workloads, for ``published.py --problems doppler``.

    python benchmarks/doppler_graphs.py --graphs compute_graph --data DIR

``compute_graph`` is that folder of the publication's repository (github.com/xinyuyao/Doppler). Each
``gdp_*nodes.txt`` becomes ``DIR/latency-inputs/doppler/*.json``: four equal accelerators without
limits, and a time that an edge across two of them takes; numbers as in the publication's costs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

UNIT = 1e10
"""What the publication divides its costs by."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=Path, required=True, help="folder of text files")
    parser.add_argument("--data", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    folder = options.data / "latency-inputs" / "doppler"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.graphs.glob("gdp_*nodes.txt")):
        workload = read_graph(path)
        target = folder / f"{path.stem.removeprefix('gdp_')}.json"
        target.write_text(json.dumps(workload))
        total = sum(node["fpgaLatency"] for node in workload["nodes"])
        print(f"{target}: {len(workload['nodes'])} nodes, {total:.1f} on one device")


def read_graph(path: Path) -> dict[str, Any]:
    """A graph file: number of nodes, inputs, sources and targets of edges, then a line a node."""
    _, _, sources, targets, *lines = path.read_text().splitlines()
    ends = ([int(part) for part in line.split(",") if part.strip()] for line in (sources, targets))
    costs = [[float(part) / UNIT for part in line.split(",")[:2]] for line in lines if line]
    nodes = [
        {
            "id": number,
            "supportedOnFpga": 1,
            "cpuLatency": compute,
            "fpgaLatency": compute,
            "isBackwardNode": 0,
            "size": 0.0,
        }
        for number, (compute, _) in enumerate(costs)
    ]
    # between two accelerators a workload's tensor moves twice, by way of the host
    edges = [
        {"sourceId": a, "destId": b, "cost": costs[a][1] / 2.0} for a, b in zip(*ends, strict=True)
    ]
    return {"maxFPGAs": 4, "maxSizePerFPGA": 0.0, "nodes": nodes, "edges": edges}


if __name__ == "__main__":
    main()
