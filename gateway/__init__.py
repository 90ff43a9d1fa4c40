"""Composes the product and serves it; the only package that knows all the others."""
