"""Agents by name; nothing is imported before it is asked for."""

from __future__ import annotations

AGENTS: dict[str, str] = {
    "single-device": "agents.static:single_device",
    "openvino-hetero": "agents.static:openvino_hetero",
    "openvino-auto": "agents.static:openvino_auto",
    "random": "agents.static:random",
    "random-blocks": "agents.static:random_blocks",
    "prefix": "agents.static:prefix",
    "window": "agents.static:window",
}
