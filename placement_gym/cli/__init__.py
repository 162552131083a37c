"""The command ``placement-gym``."""
