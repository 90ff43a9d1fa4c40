"""The store in plain dicts: the same protocol without durability, for tests and as the readable model of it."""
