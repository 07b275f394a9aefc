"""Does the effects of one session: asks the model, runs the command, renders what the model is told.

Invariants: each effect ends in exactly one event, also when it is stopped; only what was approved is handed to the
shell, judged once more right before; text on its way to a person is masked across the borders of its pieces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from agent_core import events as ev
from agent_core.dialects import Delta
from agent_core.driver import Work
from agent_core.errors import ProviderFailure
from agent_core.live import Live
from agent_core.machine import State, StepMachine
from agent_core.model import AnyModel, Retry
from agent_core.observing import corrections, observe, report
from agent_core.proposing import Proposer
from agent_core.redaction import Masker, MaskingStream
from agent_core.rendering import Templates, load, progress_values, session_values
from agent_core.sending import compacted_budget, history_to_send
from agent_core.settings import Settings
from agent_core.shell import Changes, Command, Shell
from agent_core.steps import Call
from agent_core.types import CommandResult, FailureKind, ModelReply, Reason, Usage

SUBMIT_MARKER = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SUBMISSION_BYTES = 16 << 20


class Performer:
    """What a session works with. `machine` is read only here; `on_retry` is called when a countdown begins."""

    def __init__(
        self,
        cwd: str,
        settings: Settings,
        *,
        model: AnyModel,
        shell: Shell,
        proposer: Proposer,
        masker: Masker,
        live: Live,
    ) -> None:
        self.cwd = cwd
        self.settings = settings
        self.model = model
        self.shell = shell
        self.proposer = proposer
        self.masker = masker
        self.live = live
        self.templates: Templates = load(settings.templates)
        self.on_retry: Callable[[], None] = lambda: None
        self.command: Command | None = None  # the running one
        self._changes = Changes(cwd)
        self._query: asyncio.Task[ModelReply] | None = None
        self._streams: dict[str, MaskingStream] = {}

    async def perform(self, effect: Work, machine: StepMachine) -> ev.Event:
        """Do an effect and return what came of it."""
        match effect:
            case ev.QueryModel(step=step):
                return await self._ask(step, machine)
            case ev.RunCommand(proposal=proposal):
                return await self._run(machine.record.known(proposal.key), machine)
            case ev.Observe():
                return self.observed(machine)

    def stop(self) -> None:
        """End what is in flight; its event still comes."""
        if self._query:
            self._query.cancel()
        if self.command:
            self.command.cancel()

    def values(self, machine: StepMachine) -> dict[str, object]:
        """Return the values that all templates see."""
        record, settings = machine.record, self.settings
        timeout = settings.command.timeout
        return {
            **session_values(self.cwd, self.proposer.bash, timeout, settings.completion, self.model.name),
            **progress_values(record.replies, record.usage.cost, record.turn.seconds),
        }

    def observed(self, machine: StepMachine) -> ev.Observed:
        """Render what the model is told of the current step, masked: it may hold what a person typed."""
        step, values, mask = machine.record.steps[-1], self.values(machine), self.masker.mask
        if step.by_person:
            told = report(step.calls[0], self.templates, values)
            return ev.Observed(time.time(), (), (replace(told, text=mask(told.text)),))
        observations = (replace(each, text=mask(each.text)) for each in observe(step, self.templates, values))
        return ev.Observed(time.time(), tuple(observations), corrections(step, self.templates, values))

    async def _ask(self, step: int, machine: StepMachine) -> ev.Event:
        if machine.state is State.CANCELLING:
            return ev.ModelFailed(time.time(), FailureKind.CANCELLED, "Cancelled before the model was asked.", Usage())
        self.live.begin(step)
        self._streams.clear()
        record = machine.record
        sent = history_to_send(record, self.settings.history_budget, self.model.context_window)
        query = asyncio.create_task(
            self.model.query(record.system, sent, on_delta=self._delta, on_retry=self._retrying),
        )
        self._query = query
        try:
            await asyncio.wait({query})
        finally:
            query.cancel()
            self._query = None
            self.live.retry = None
        if query.cancelled():
            return ev.ModelFailed(time.time(), FailureKind.CANCELLED, "The query was cancelled.", Usage())
        match query.exception():
            case None:
                return self.proposer.replied(record, query.result(), self.settings.completion)
            case ProviderFailure() as failure:
                budget = compacted_budget(record) if failure.kind is FailureKind.CONTEXT_TOO_LONG else None
                message, raw = self.masker.mask(str(failure)), self.masker.mask(failure.raw)
                return ev.ModelFailed(time.time(), failure.kind, message, failure.usage, raw, budget)
            case error:
                raise error

    def _delta(self, delta: Delta) -> None:
        stream = self._streams.setdefault(delta.channel, self.masker.stream())
        self.live.add(delta.channel, None, stream.feed(delta.text.encode(errors="replace")))

    def _retrying(self, retry: Retry) -> None:
        self._streams.clear()
        self.live.again(retry.attempt)
        self.live.retry = (retry.attempt, asyncio.get_running_loop().time() + retry.in_seconds, retry.reason)
        self.on_retry()

    async def _run(self, call: Call, machine: StepMachine) -> ev.Event:
        await self._changes.begin()
        verdict = self.proposer.last_word(machine.record, call)
        if verdict is not None and machine.state is State.EXECUTING:
            return ev.Rejudged(time.time(), ((call.key, verdict),))
        if machine.state is not State.EXECUTING:
            result = CommandResult("cancelled", reason=Reason.CANCELLED, started_at=time.time())
            return ev.CommandFinished(time.time(), call.key, result)
        self.command = await self.shell.start(
            call.to_run,
            environment=self.proposer.environment(call),
            limits=self.proposer.command_limits,
            on_output=lambda data: self.live.add("output", call.key, data),
        )
        if machine.state is not State.EXECUTING:
            self.command.cancel()
        try:
            result = await self.command.wait()
        finally:
            self.command = None
        self.live.flush()
        result = replace(result, changed_files=await self._changes.since(result.started_at))
        return ev.CommandFinished(time.time(), call.key, result, await self._submission(result))

    async def _submission(self, result: CommandResult) -> str | None:
        """Return what a command submitted, whole and as it was written, not as the model is shown it; else None."""
        if self.settings.completion != "submit" or result.exit_code != 0:
            return None
        first, _, rest = result.output.lstrip().partition("\n")
        if first.strip() != SUBMIT_MARKER:
            return None
        return await asyncio.to_thread(_after_first_line, result.spool) if result.spool else rest


def _after_first_line(spool: str) -> str:
    with open(spool, "rb") as file:
        text = file.read(_SUBMISSION_BYTES).decode("utf-8", "replace")
    return text.lstrip().partition("\n")[2]
