"""Schemas of files: bounds, types and messages. Imported only where a file is parsed."""
