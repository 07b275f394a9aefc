"""For all tests: a state folder of the run's own, no settings of the person who runs them, and no live model."""

from __future__ import annotations

import os
import tempfile

_folder = tempfile.TemporaryDirectory(prefix="handrail-tests-")
os.environ["HANDRAIL_STATE_DIR"] = os.path.join(_folder.name, "state")
os.environ["HANDRAIL_CONFIG"] = os.path.join(_folder.name, "config.toml")
open(os.environ["HANDRAIL_CONFIG"], "x").close()
os.environ["HANDRAIL_OFFLINE"] = "1"
