"""Tidegate: AI agents in every chat app a person uses, behind one dependable gateway."""

__version__ = "0.1.0"
