"""When a worker is started again, seen with workers that are none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent_core.errors import ProviderFailure
from agent_core.kept_worker import KeptWorker
from agent_core.types import FailureKind
from agent_core.worker_process import WorkerProcess


class FakeWorker:
    """Lives until told otherwise."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.was_ready = False
        self.is_dead = False

    async def ready(self) -> str:
        if self.is_dead:
            raise ProviderFailure(FailureKind.WORKER_DIED, "it died")
        self.was_ready = True
        return "1"

    async def died(self) -> None:
        await self.over.wait()

    async def close(self) -> None:
        self.die()

    def die(self) -> None:
        self.is_dead = True
        self.over.set()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakeWorker]:
    """Return the list of workers that were started, in order."""
    workers: list[FakeWorker] = []

    async def start(_: Mapping[str, str], __: Callable[[str], str]) -> Any:
        workers.append(FakeWorker())
        return workers[-1]

    monkeypatch.setattr(WorkerProcess, "start", start)
    return workers


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_worker_serves_all(started: list[FakeWorker]) -> None:
    kept = KeptWorker({}, str)
    kept.warm_up()
    first, second = await asyncio.gather(kept.running(), kept.running())
    assert first is second
    assert len(started) == 1
    await kept.close()


async def test_a_worker_that_was_ready_is_started_again_once_by_itself(started: list[FakeWorker]) -> None:
    kept = KeptWorker({}, str)
    for expected in (2, 2, 4):
        await kept.running()
        started[-1].die()
        await settle()
        assert len(started) == expected
        # The replacement of one that was asked for is not replaced, until the next call asks for one again.
    await kept.close()


async def test_a_worker_that_never_became_ready_is_not_started_in_a_loop(started: list[FakeWorker]) -> None:
    kept = KeptWorker({}, str)
    kept.warm_up()
    await settle()
    started[-1].die()
    await settle()
    assert len(started) == 1
    await kept.running()
    assert len(started) == 2
    await kept.close()


async def test_a_death_that_was_not_noticed_yet_costs_no_call(started: list[FakeWorker]) -> None:
    kept = KeptWorker({}, str)
    await kept.running()
    started[-1].is_dead = True
    await kept.running()
    assert len(started) == 2
    started[0].over.set()
    await settle()
    assert len(started) == 2
    await kept.close()


async def test_what_cannot_be_started_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, started: list[FakeWorker]
) -> None:
    working = WorkerProcess.start

    async def fail(*_: Any) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(WorkerProcess, "start", fail)
    kept = KeptWorker({}, str)
    with pytest.raises(ProviderFailure, match="no more processes"):
        await kept.running()
    await settle()
    monkeypatch.setattr(WorkerProcess, "start", working)
    await kept.running()
    assert len(started) == 1
    await kept.close()
    with pytest.raises(ProviderFailure, match="closed"):
        await kept.running()
