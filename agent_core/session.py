"""One session: feeds the machine, does its effects, and shows what it looks like.

Invariants: an event is journalled before its effect begins; one task drives the session and holds at most one piece of
work in flight; the work belongs to the session, never to a request or a connection, so nothing is lost when a caller
goes away; requests answer at once and waiting is a read; only what was approved is handed to the shell, judged once
more right before.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace

from agent_core import events as ev
from agent_core.dialects import Delta
from agent_core.errors import HandrailError, IllegalEvent, JournalError, ProviderFailure, StaleDecision, UsageError
from agent_core.instructions import Instructions, read_instructions
from agent_core.journal import Journal, SessionHold, SessionSummary
from agent_core.live import Live, Piece
from agent_core.machine import State, StepMachine
from agent_core.model import AnyModel, Retry
from agent_core.observing import corrections, observe, report
from agent_core.parsing import command_error
from agent_core.proposing import Proposer
from agent_core.record import Call
from agent_core.redaction import Masker
from agent_core.rendering import Templates, load, progress_values, session_values
from agent_core.sending import compacted_budget, history_to_send
from agent_core.settings import Settings
from agent_core.shell import Command, Shell
from agent_core.stored_settings import to_stored
from agent_core.types import (
    CallStatus,
    CommandResult,
    Decision,
    FailureKind,
    Message,
    ModelReply,
    Reason,
    Usage,
    UserMessage,
    Verdict,
)

SUBMIT_MARKER = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
CLOSE_SECONDS = 1.2
"""How long a close waits for work in flight to end; VS Code gives a whole shutdown 2 s."""

log = logging.getLogger(__name__)


class Session:
    """A conversation in one folder. Every method that asks for something returns when it is on disk and under way."""

    def __init__(
        self,
        summary: SessionSummary,
        settings: Settings,
        *,
        journal: Journal,
        hold: SessionHold,
        model: AnyModel,
        shell: Shell,
        proposer: Proposer,
        masker: Masker,
    ) -> None:
        self.id = summary.id
        self.cwd = summary.cwd
        self.settings = settings
        self.model = model
        self.proposer = proposer
        self.machine = StepMachine()
        self.live = Live(self._stream)
        self.read_only = ""
        self.on_update: Callable[[Session], None] = lambda session: None
        self.on_piece: Callable[[Session, Piece], None] = lambda session, piece: None
        self._summary = replace(summary, holder=hold.holder)
        self._journal = journal
        self._hold = hold
        self._shell = shell
        self._masker = masker
        self._templates: Templates = load(settings.templates)
        self._order = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._work: asyncio.Task[None] | None = None
        self._query: asyncio.Task[ModelReply] | None = None
        self._command: Command | None = None
        self._detached: dict[str, Command] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._closing = False
        self._background: set[asyncio.Task[None]] = set()

    # --- what it looks like ----------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where the session stands."""
        return State.CLOSED if self._closing else self.machine.state

    @property
    def resting(self) -> bool:
        """Whether nothing is in flight, or nothing more can be because the journal failed."""
        return self.state.resting or bool(self.read_only)

    @property
    def summary(self) -> SessionSummary:
        """What a list of sessions shows of this one."""
        record = self.machine.record
        return replace(
            self._summary,
            updated_at=record.last_at or self._summary.updated_at,
            state=self.state.value,
            stop=record.stop.value if record.stop else None,
            steps=len(record.steps),
            cost=record.usage.cost,
        )

    @property
    def detached(self) -> list[Call]:
        """The calls whose commands were left running and still run."""
        for key in [key for key, command in self._detached.items() if not command.running]:
            del self._detached[key]
        return [self.machine.record.known(key) for key in self._detached]

    async def rested(self, after: int) -> None:
        """Return when the session rests beyond revision `after`, or is closed; a pure read, harmless to cancel."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._closing or (self.resting and self.machine.record.revision > after),
            )

    def _configured(self, settings: Settings) -> ev.Configured:
        return ev.Configured(time.time(), settings.limits.for_machine(), to_stored(settings, self._masker))

    # --- what can be asked of it -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin a new session."""
        await self._act(self._configured(self.settings))

    async def resume(self) -> None:
        """Take the session up where the journal ends: what was in flight is interrupted, what waited waits again."""
        events, self.read_only = await self._journal.events(self.id)
        for event in events:
            self.machine.feed(event)
        if self.read_only:
            return
        if not self.state.resting:
            await self._settle_interrupted()
        await self._rejudge()

    async def step(self, prompt: str | None, max_steps: int | None) -> None:
        """Start steps: of a new turn with a prompt, else of the unfinished one."""
        values = self._values()
        message = None if prompt is None else UserMessage(self._templates.task.render(values, task=prompt))
        system: str | None = None
        files: tuple[str, ...] = ()
        if not self.machine.record.system:
            found = await asyncio.to_thread(read_instructions, self.cwd) if self.proposer.trusted else Instructions()
            system = self._masker.mask(f"{self._templates.system.render(values)}\n{found.text}".strip())
            files = found.files
        if prompt and not self._summary.title:
            self._summary = replace(self._summary, title=self._masker.mask(prompt.strip().split("\n", 1)[0][:80]))
        message = message and replace(message, text=self._masker.mask(message.text))
        shown = self._masker.mask(prompt or "")
        await self._act(ev.StepRequested(time.time(), message, max_steps, system, shown, files))

    async def decide(self, decisions: Sequence[Decision]) -> None:
        """Take a person's decisions, all or none; `edited` proposals are judged first."""
        self.machine.record.check_decisions(decisions)
        judged = tuple(self._judge_edit(each) for each in decisions)
        await self._act(ev.Decided(time.time(), judged))

    def edited(self, key: str, command: str) -> Decision:
        """Return an unsigned approval of call `key` with another text; raises `StaleDecision` if it cannot be run."""
        call = self.machine.record.find(key)
        if call is None or call.shown is None:
            raise StaleDecision(f"There is no call {key!r} to decide; nothing was decided.")
        if error := command_error(command):
            raise StaleDecision(f"The edited command of call {key} cannot be run: {error}")
        proposal = replace(call.shown, command=command)
        return Decision(key, "approve_edited", call.shown.digest, edited=proposal)

    async def cancel(self, key: str | None = None) -> None:
        """Cancel the turn, or the one running command `key`; harmless to repeat."""
        if key is not None:
            call = self.machine.record.find(key)
            if call is not None and call.status is CallStatus.RUNNING and self._command is not None:
                self._command.cancel()
            elif key in self._detached:
                self._detached[key].cancel()
            return
        if self.state in (State.QUERYING, State.EXECUTING, State.AWAITING_APPROVAL, State.OBSERVING):
            await self._act(ev.CancelRequested(time.time()))

    async def run(self, command: str) -> None:
        """Run a command of the person's own, without a question."""
        if error := command_error(command):
            raise UsageError(f"The command cannot be run: {error}")
        key = f"{len(self.machine.record.steps) + 1}.1"
        await self._act(ev.PersonRan(time.time(), self.proposer.proposal(key, command, None)))

    async def configure(self, settings: Settings, model: AnyModel, proposer: Proposer) -> None:
        """Take new settings; they hold from the next query, and what is pending is judged again."""
        templates = load(settings.templates)
        await self._act(self._configured(settings))
        old, self.model = self.model, model
        self.settings, self.proposer, self._templates = settings, proposer, templates
        if old is not model:
            await old.close()
        await self._rejudge()

    async def trust_changed(self) -> None:
        """Judge again what is pending, since the folder's trust changed."""
        await self._rejudge()

    async def queue(self, prompt: str) -> None:
        """Keep a prompt for the next query of the running turn."""
        if self.state is State.IDLE:
            raise IllegalEvent("No turn is running: send the prompt with a step.")
        text = self._masker.mask(prompt)
        await self._act(ev.Queued(time.time(), UserMessage(text, "queued"), text))

    async def unqueue(self, prompt_id: str) -> None:
        """Withdraw a queued prompt."""
        await self._act(ev.Unqueued(time.time(), prompt_id))

    def detach(self, key: str) -> None:
        """Leave the running command `key` running and go on; the session's close ends it."""
        call = self.machine.record.find(key)
        if call is None or call.status is not CallStatus.RUNNING or self._command is None:
            raise IllegalEvent(f"Call {key} is not running, so it cannot be left running.")
        self._detached[key] = self._command
        self._command.detach()

    async def compact(self) -> None:
        """Send less of the conversation from now on; the record stays whole."""
        await self._act(ev.Compacted(time.time(), compacted_budget(self.machine.record)))

    async def close(self) -> None:
        """Stop what is in flight, say so in the record, and let go; returns within about two seconds."""
        if self._closing:
            return
        self._closing = True
        try:
            if not self.resting:
                await self._settle_interrupted()
            if not self.read_only:
                self.machine.feed(ev.Closed(time.time()))
        except HandrailError as error:
            log.error("Session %s could not be closed in order: %s", self.id, error)
        await self._let_go()
        await self._tell()

    async def _let_go(self) -> None:
        self._stop_in_flight()
        if self._expiry:
            self._expiry.cancel()
        if self._work:
            await asyncio.wait({self._work}, timeout=CLOSE_SECONDS)
            self._work.cancel()
        await self._shell.close()
        await self.model.close()
        self.live.drop()
        self._hold.release()

    # --- feeding and driving ---------------------------------------------------------------------------------------

    async def _act(self, event: ev.Event) -> None:
        """Feed an event and start what follows, even if the caller is cancelled meanwhile."""
        task = asyncio.ensure_future(self._feed_and_start(event))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(task)

    async def _feed_and_start(self, event: ev.Event) -> None:
        effect = await self._feed(event)
        if isinstance(effect, ev.StopWork):
            self._stop_in_flight()
        elif isinstance(effect, ev.QueryModel | ev.RunCommand | ev.Observe):
            self._work = asyncio.create_task(self._drive(effect), name=f"session {self.id}")

    async def _feed(self, event: ev.Event) -> ev.Effect | None:
        if self.read_only:
            raise JournalError(f"Session {self.id} can only be read: {self.read_only}")
        async with self._order:
            effect = self.machine.feed(event)
            durable = isinstance(effect, ev.RunCommand)
            try:
                await self._journal.append(self.summary, self.machine.record.revision, event, durable=durable)
            except JournalError as error:
                self.read_only = str(error)
                await self._tell()
                raise
        self._arm_expiry()
        await self._tell()
        return effect

    async def _drive(self, effect: ev.Effect | None) -> None:
        """Do effect after effect until the session rests."""
        try:
            while isinstance(effect, ev.QueryModel | ev.RunCommand | ev.Observe):
                event = await self._perform(effect)
                if self._closing:
                    return
                effect = await self._feed(event)
        except JournalError as error:
            log.error("Session %s stopped: %s", self.id, error)
        except Exception:
            log.exception("Session %s stopped by a fault of Handrail", self.id)
            self.read_only = "a fault of Handrail stopped it; its log says more. Load the session again to go on."
            await self._tell()

    async def _perform(self, effect: ev.QueryModel | ev.RunCommand | ev.Observe) -> ev.Event:
        match effect:
            case ev.QueryModel(step=step):
                return await self._ask(step)
            case ev.RunCommand(proposal=proposal):
                return await self._run(self.machine.record.known(proposal.key))
            case ev.Observe():
                return self._observed()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
        self.on_update(self)

    def _stream(self, piece: Piece) -> None:
        self.on_piece(self, piece)

    def _stop_in_flight(self) -> None:
        if self._query:
            self._query.cancel()
        if self._command:
            self._command.cancel()

    async def _settle_interrupted(self) -> None:
        """Record that the work was cut, and what the model is told of it."""
        await self._feed(ev.Interrupted(time.time()))
        await self._feed(self._observed())

    # --- the model -------------------------------------------------------------------------------------------------

    async def _ask(self, step: int) -> ev.Event:
        if self.state is State.CANCELLING:
            return ev.ModelFailed(time.time(), FailureKind.CANCELLED, "Cancelled before the model was asked.", Usage())
        self.live.begin(step)
        record = self.machine.record
        query = asyncio.create_task(
            self.model.query(record.system, self._sent(), on_delta=self._delta, on_retry=self._retrying),
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
                message, raw = self._masker.mask(str(failure)), self._masker.mask(failure.raw)
                return ev.ModelFailed(time.time(), failure.kind, message, failure.usage, raw, budget)
            case error:
                raise error

    def _sent(self) -> Sequence[Message]:
        return history_to_send(self.machine.record, self.settings.history_budget, self.model.context_window)

    def _delta(self, delta: Delta) -> None:
        self.live.add(delta.channel, None, self._masker.mask(delta.text).encode())

    def _retrying(self, retry: Retry) -> None:
        self.live.again(retry.attempt)
        self.live.retry = (retry.attempt, asyncio.get_running_loop().time() + retry.in_seconds, retry.reason)
        self._later(self._tell())

    # --- commands --------------------------------------------------------------------------------------------------

    async def _run(self, call: Call) -> ev.Event:
        verdict = self.proposer.last_word(self.machine.record, call)
        if verdict is not None and self.state is State.EXECUTING:
            return ev.Rejudged(time.time(), ((call.key, verdict),))
        started_at = time.time()
        if self.state is State.CANCELLING:
            result = CommandResult("cancelled", reason=Reason.CANCELLED, started_at=started_at)
            return ev.CommandFinished(time.time(), call.key, result)
        self._command = await self._shell.start(
            call.to_run,
            environment=self.proposer.environment(call),
            limits=self.proposer.command_limits,
            on_output=lambda data: self.live.add("output", call.key, data),
        )
        if self.state is not State.EXECUTING:
            self._command.cancel()
        try:
            result = await self._command.wait()
        finally:
            self._command = None
        return ev.CommandFinished(time.time(), call.key, result, self._submission(result))

    def _submission(self, result: CommandResult) -> str | None:
        if self.settings.completion != "submit" or result.exit_code != 0:
            return None
        first, _, rest = result.output.lstrip().partition("\n")
        return rest if first.strip() == SUBMIT_MARKER else None

    def _judge_edit(self, decision: Decision) -> Decision:
        if decision.edited is None:
            return decision
        return replace(decision, edited_verdict=self.proposer.judge(self.machine.record, decision.edited.command))

    async def _rejudge(self) -> None:
        """Judge again what has not started; it may refuse a call or ask for it, never start one."""
        if self.state is not State.AWAITING_APPROVAL:
            return
        record = self.machine.record
        verdicts: list[tuple[str, Verdict]] = [
            (call.key, self.proposer.judge(record, call.to_run.command))
            for call in record.with_status(CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED)
        ]
        await self._act(ev.Rejudged(time.time(), tuple(verdicts)))

    def _arm_expiry(self) -> None:
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None
        if self.settings.approval_timeout and self.state is State.AWAITING_APPROVAL:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self.settings.approval_timeout, lambda: self._later(self._expire()))

    async def _expire(self) -> None:
        if self.state is State.AWAITING_APPROVAL:
            keys = tuple(call.key for call in self.machine.record.with_status(CallStatus.AWAITING_APPROVAL))
            await self._act(ev.Expired(time.time(), keys))

    # --- what the model is told ------------------------------------------------------------------------------------

    def _observed(self) -> ev.Observed:
        step = self.machine.record.steps[-1]
        values = self._values()
        if step.by_person:
            return ev.Observed(time.time(), (), (report(step.calls[0], self._templates, values),))
        observations = observe(step, self._templates, values)
        return ev.Observed(time.time(), observations, corrections(step, self._templates, values))

    def _values(self) -> dict[str, object]:
        record, settings = self.machine.record, self.settings
        return {
            **session_values(
                self.cwd, self.proposer.bash, settings.command.timeout, settings.completion, self.model.name
            ),
            **progress_values(record.replies, record.usage.cost, record.turn.seconds),
        }

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
