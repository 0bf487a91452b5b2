"""What holds for the whole suite."""

from hypothesis import HealthCheck, settings

# Machines are shared: an example that takes long says something about the neighbours, not about the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
