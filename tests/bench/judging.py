"""The processor time of judging a command under 200 rules: its analysis included, no command judged twice."""

from __future__ import annotations

import statistics
import time

from agent_core.policy import Policy
from agent_core.policy_context import PolicyContext
from agent_core.rules import Rule

_RULES = [
    Rule(match=(f"tool{number % 20}", f"part{number}", "*"), decision=("allow", "ask", "deny")[number % 3])
    for number in range(200)
]
_CONTEXT = PolicyContext(cwd="/w", roots=("/w",))


def seconds(length: int, runs: int = 30) -> float:
    """Return the median processor seconds of judging a command of about `length` characters (0: five words)."""
    policy = Policy(_RULES, "rules")
    times = []
    for number in range(runs):
        pieces = [f"tool{part % 20} none{part} one two {number}" for part in range(1 + length // 30)]
        command = " && ".join(pieces)
        start = time.process_time()
        policy.judge(command, _CONTEXT)
        times.append(time.process_time() - start)
    return statistics.median(times)
