"""The web chat: the page at `/` and what it needs of the gateway besides the control plane.

Nothing here is read or imported before somebody asks for the page; a gateway without a browser pays nothing for it.
"""
