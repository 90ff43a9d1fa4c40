"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast a machine is says nothing about a property; speed is measured in `bench/`.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
