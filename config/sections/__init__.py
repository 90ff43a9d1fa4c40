"""The sections of the configuration, one module each; every field says its unit and what 0 means.

These modules do without postponed annotations: reading hundreds of annotations back from text would cost every
start about ten milliseconds.
"""
