"""Requests under load: plans, traces, the simulation, the environment, and rules."""
