"""Numbered migrations of the SQLite schema and their runner."""
