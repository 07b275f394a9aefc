"""Who only looks whether a session is held does not keep anybody from taking it."""

from __future__ import annotations

import fcntl
import threading
import time
from pathlib import Path

import pytest

from agent_core.errors import SessionHeld
from agent_core.journal import Journal


def test_a_look_at_the_lock_of_another_server_is_waited_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.hold("a").release()
    with (tmp_path / "locks" / "a.lock").open("r+b") as look:
        fcntl.flock(look, fcntl.LOCK_SH)

        def end() -> None:
            time.sleep(0.002)
            fcntl.flock(look, fcntl.LOCK_UN)

        looking = threading.Thread(target=end)
        looking.start()
        journal.hold("a").release()
        looking.join()


def test_a_refusal_names_the_holder(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    hold = journal.hold("a")
    with pytest.raises(SessionHeld, match="Close it there first") as refused:
        journal.hold("a")
    assert refused.value.holder == hold.holder != ""
