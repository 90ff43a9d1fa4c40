"""A client of the control plane: where a gateway is, who we are, and one connection to it."""
