"""DOPPLER: two policies choose the next unit and its device (ICLR 2026)."""

from agents.doppler.doppler import Doppler

__all__ = ["Doppler"]
