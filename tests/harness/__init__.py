"""A whole gateway in the test's own process, between a platform made of objects and a model server on loopback."""
