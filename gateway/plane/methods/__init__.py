"""The methods of the control plane, one module a group; `table.py` puts them together."""
