"""Runs a turn: model and tools until there is an answer. Knows no platform."""
