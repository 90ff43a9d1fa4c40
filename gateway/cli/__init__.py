"""The `tidegate` command: one module a command."""
