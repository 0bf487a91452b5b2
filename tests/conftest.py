"""What holds for the whole suite."""

import os

from hypothesis import HealthCheck, settings

# Machines are shared: an example that takes long says something about the neighbours, not about the code.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# `make test` draws the same examples every time; `make hunt` sets HYPOTHESIS_PROFILE=hunt and draws new ones.
settings.register_profile("suite", derandomize=True, database=None, **COMMON)
settings.register_profile("hunt", max_examples=300, database=None, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
