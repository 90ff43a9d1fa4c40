"""Providers of language models behind one protocol."""
