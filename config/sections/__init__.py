"""The sections of the configuration, one module each; every field says its unit and what 0 means."""
