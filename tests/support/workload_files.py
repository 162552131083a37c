"""Workloads in the format of their publication, written down by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def node(key: int, cpu_ms: float = 10.0, acc_ms: float = 1.0, **fields: Any) -> Json:
    return {
        "id": key,
        "supportedOnFpga": True,
        "cpuLatency": cpu_ms,
        "fpgaLatency": acc_ms,
        "isBackwardNode": False,
        "size": 100.0,
        **fields,
    }


def edge(source: int, target: int, cost: float = 0.5, size: float = 1000.0) -> Json:
    return {"sourceId": source, "destId": target, "cost": cost, "size": size}


def contents(nodes: list[Json], edges: list[Json]) -> Json:
    return {"maxSizePerFPGA": 250.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}


def write_workload(path: Path, nodes: list[Json], edges: list[Json]) -> str:
    path.write_text(json.dumps(contents(nodes, edges)))
    return str(path)
