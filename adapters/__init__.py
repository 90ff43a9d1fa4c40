"""Platforms: each adapter knows its platform and the shared event types, nothing else."""
