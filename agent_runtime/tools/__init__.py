"""What an agent can do besides talking."""
