"""Keeps the peer package from writing a configuration of its own and from greeting."""

from __future__ import annotations

import os
import tempfile


def quiet_peer() -> None:
    """To be called before the peer is imported."""
    os.environ["MSWEA_SILENT_STARTUP"] = "1"
    os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = tempfile.gettempdir()
    os.environ["MSWEA_CONFIGURED"] = "true"
