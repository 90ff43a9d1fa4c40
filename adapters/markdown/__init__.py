"""Markdown as people and models write it in chats: read into a tree, laid out as styled text, cut to size.

Knows no platform. A channel reads with `blocks.parse`, lays out with `layout.lay_out`, cuts with `split.split`
and puts its own markup around the runs of each piece.
"""
