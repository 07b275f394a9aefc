"""`make bench`: a table of ratios, each against its peer in the same run, kept in `tests/bench/README.md`.

Invariants: nothing here is a test; runs of both sides alternate, so that what else the machine does weighs on both.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import calling, judging, reaching, running, serving, starting, steps

README = Path(__file__).parent / "README.md"
RUNS = 7


def alternate(ours: Callable[[], float], peer: Callable[[], float], runs: int = RUNS) -> tuple[float, float]:
    """Return the medians of both, measured in turn."""
    pairs = [(ours(), peer()) for _ in range(runs)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def row(name: str, ours: float, peer: float, goal: float | None, unit: str = "ms") -> str:
    """Return a line of the table; times are given in seconds."""
    scale = 1000 if unit == "ms" else 1
    ratio = ours / peer
    verdict = "" if goal is None else f"{goal:g} {'✓' if ratio <= goal else '✗'}"
    return f"| {name} | {ours * scale:.2f} {unit} | {peer * scale:.2f} {unit} | {ratio:.2f} | {verdict} |"


def bound(name: str, seconds: float, goal: float) -> str:
    """Return a line for a time that has a goal of its own and no peer."""
    return f"| {name} | {seconds * 1000:.2f} ms | | | {goal * 1000:g} ms {'✓' if seconds <= goal else '✗'} |"


def serving_rows() -> list[str]:
    """Measure what a client feels of a server that is up."""
    ours, raw = serving.round_trips()
    listing, loading = serving.stored()
    grown, stall = serving.slow_reader()
    within = "✓" if ours <= 1.5 * raw + 0.0001 else "✗"
    return [
        f"| a small request and its answer; peer: a raw JSON-RPC loop on asyncio | {ours * 1000:.3f} ms "
        f"| {raw * 1000:.3f} ms | {ours / raw:.2f} | 1.5 and 0.1 ms more {within} |",
        bound("a status request while 100 sessions wait for approval, 99th percentile", serving.waiting(), 0.05),
        bound("list 1,000 stored sessions of 200 steps", listing, 0.1),
        bound("load one of them", loading, 0.3),
        f"| 10 MB of output to a client that reads slowly: growth of memory | {grown / 1e6:.1f} MB | | | |",
        f"| the same: longest stall of the loop | {stall * 1000:.1f} ms | | | |",
    ]


def model_rows() -> list[str]:
    """Measure what a model costs beyond litellm, and how soon it is asked."""
    found = calling.figures()
    reached = alternate(
        lambda: reaching.seconds_to_first_byte(reaching.ours), lambda: reaching.seconds_to_first_byte(reaching.peer), 3
    )
    return [
        *(
            row(f"a model call with {count} messages; peer: bare litellm", found.ours[count], found.bare[count], 1.1)
            for count in (10, 200)
        ),
        row(
            "processor time of 1,000 streamed deltas; peer: bare litellm",
            found.delta * 1000,
            found.bare_delta * 1000,
            None,
        ),
        row("process start to the provider's first byte; peer: mini-swe-agent", *reached, 0.6),
    ]


def command_rows() -> list[str]:
    """Measure judging and running commands."""
    lines = [
        bound("judging 5 words under 200 rules (processor time)", judging.seconds(0), 0.001),
        bound("judging 5,000 characters under 200 rules (processor time)", judging.seconds(5_000), 0.02),
    ]
    for command, runs in (("true", 60), ("seq 1 10000", 30), ("head -c 500000000 /dev/zero", 1)):
        ours, our_bytes = running.measure("ours", command, runs)
        for other in ("subprocess.run", "mini-swe-agent"):
            peer, peer_bytes = running.measure(other, command, runs)
            goal = 1.0 if (command, other) == ("true", "mini-swe-agent") else None
            lines.append(row(f"the runner, `{command}`; peer: {other}", ours, peer, goal))
            if runs == 1:
                lines.append(f"| its memory | {our_bytes / 1e6:.0f} MB | {peer_bytes / 1e6:.0f} MB | | |")
    return lines


def rows() -> list[str]:
    """Measure everything."""
    start = alternate(
        lambda: starting.seconds_to_initialize(starting.OURS), lambda: starting.seconds_to_initialize(starting.BARE)
    )
    early = alternate(
        lambda: steps.at(steps.ours(30, full_sync=False), steps.EARLY), lambda: steps.at(steps.peer(30), steps.EARLY)
    )
    synced = alternate(
        lambda: steps.at(steps.ours(30, full_sync=True), steps.EARLY), lambda: steps.at(steps.peer(30), steps.EARLY)
    )
    ours = steps.ours(steps.LATE + 5, full_sync=False)
    peer = steps.peer(steps.LATE + 5)
    return [
        row("`initialize` answered; peer: a bare pygls server", *start, 1.3),
        row("step 10, without full sync; peer: mini-swe-agent", *early, 1.0),
        row("step 10, with full sync; peer: mini-swe-agent (makes none)", *synced, 1.5),
        row("step 1000; peer: mini-swe-agent", steps.at(ours, steps.LATE), steps.at(peer, steps.LATE), 0.2),
        row("step 1000; peer: our own step 10", steps.at(ours, steps.LATE), steps.at(ours, steps.EARLY), 1.2),
        f"| memory kept per 1,000 steps | {steps.memory(1000) / 1e6:.1f} MB | | | |",
        *model_rows(),
        *command_rows(),
        *serving_rows(),
    ]


def main() -> None:
    """Measure, print and keep the table."""
    # Both sides keep compiled files, as on a person's machine: those of the peers are installed so.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    table = "\n".join(["| what | ours | peer | ratio | goal |", "|---|---|---|---|---|", *rows()])
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    README.write_text(
        f"# Bench\n\n`make bench` prints and keeps this table: medians, both sides in turn in one run.\n\n"
        f"{machine}; {when}.\n\n{table}\n",
        encoding="utf-8",
    )
    sys.stdout.write(table + "\n")


if __name__ == "__main__":
    main()
