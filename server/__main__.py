"""Starts the server: on standard input and output, or on loopback for debugging.

Invariants: the server is kept (`server.keeper`), and when it ends nothing is left below it; the log goes to standard
error only; the workspace is never on the import path (`python -P`, or the `handrail` script), so that a folder with a
`server/` in it cannot run as us.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence

from server import __version__
from server.keeper import KEPT, end_what_is_below


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the end and return the exit code."""
    KEPT.begin()
    import argparse  # now only, since the forks of a process are the quicker the less it has imported
    import logging

    parser = argparse.ArgumentParser(prog="handrail serve", description="Serve an editor on stdio.")
    parser.add_argument("--tcp", metavar="PORT", type=int, help="serve one client on this port of loopback instead")
    parser.add_argument(
        "--log", default="warning", choices=["debug", "info", "warning", "error"], help="the least of what is logged"
    )
    options = parser.parse_args(arguments)
    gc.disable()  # until `initialize` is answered: imports make no garbage, and looking for it takes long
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some reads every installed package
    from server.app import create
    from server.logs import log_to_stderr

    server = create(__version__, log_to_stderr(getattr(logging, options.log.upper())))
    server.keeper = KEPT.keeper
    code = server.run_stdio() if options.tcp is None else server.run_tcp(options.tcp)
    end_what_is_below()
    return code


if __name__ == "__main__":
    ended = main()  # before the next import, which is large, while `main` is to fork
    from server.lifecycle import leave

    leave(ended)
