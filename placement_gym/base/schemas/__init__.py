"""Schemas of files: bounds, types and messages."""
