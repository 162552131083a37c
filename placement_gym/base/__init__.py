"""Errors, arrays, files, text for people, child processes and schemas: all else stands on these."""
