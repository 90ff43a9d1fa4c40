"""Ordering and history: the durable queue of every session and everything said in it."""
