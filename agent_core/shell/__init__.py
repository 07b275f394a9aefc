"""The command runner: starts exactly what was approved, always returns, and leaves nothing behind.

Invariants: only `launch` starts processes. The parts, from the bottom, above `agent_core.sweep`, which looks at
processes and is the supervisor: `launch` starts, `guard` keeps watch over this server's orphans, `processes` ends what
belongs to one command; `reader`, `spool`, `output` and `capture` take its output; `command` is one that runs, `sandbox`
what can be put around it; `runner` is a session's `Shell`; `changes` sees which files a command changed; `offers` says
what the machine has of all this.

Linux gives all of this. macOS: commands run and end by their process group, but what leaves the group is not found,
there is no supervisor, no sandbox, and no limit of memory or processes. Windows: `find_bash` refuses with the way out.
"""

from __future__ import annotations

from agent_core.shell.changes import Changes
from agent_core.shell.command import Command, CommandLimits
from agent_core.shell.environment import base_environment, find_bash
from agent_core.shell.offers import Offer, offers
from agent_core.shell.runner import Shell

__all__ = ["Changes", "Command", "CommandLimits", "Offer", "Shell", "base_environment", "find_bash", "offers"]
