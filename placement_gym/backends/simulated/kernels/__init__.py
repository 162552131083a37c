"""Compiled kernels: one file for each meaning of a schedule, and what they count."""
