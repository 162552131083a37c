"""Devices: their specifications, presets, memory pools, and what this machine has."""
