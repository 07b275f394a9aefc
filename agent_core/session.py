"""One session: what can be asked of it, and what it looks like.

Invariants: a request returns when it is on disk and under way, and waiting is a read; every text of a person is masked
before it becomes an event; what is decided is checked against what was shown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_core import events as ev
from agent_core.checks import check_decisions
from agent_core.driver import Driver
from agent_core.errors import HandrailError, IllegalEvent, JournalError, StaleDecision, UsageError
from agent_core.instructions import Instructions, read_instructions
from agent_core.journal import Journal, SessionHold, SessionSummary
from agent_core.live import Live, Piece
from agent_core.machine import State, StepMachine
from agent_core.model import AnyModel
from agent_core.parsing import command_error
from agent_core.performing import Performer
from agent_core.prompt_context import ContextItem, told_context
from agent_core.proposing import Proposer
from agent_core.redaction import Masker
from agent_core.rendering import load
from agent_core.sending import compacted_budget
from agent_core.settings import Settings
from agent_core.shell import Command, Shell
from agent_core.steps import Call
from agent_core.stored_settings import to_stored
from agent_core.types import CallStatus, Decision, Reason, UserMessage

CLOSE_SECONDS = 1.2
"""How long a close waits for work in flight to end; VS Code gives a whole shutdown 2 s."""
_TITLE_CHARACTERS = 80

log = logging.getLogger(__name__)


class Session:
    """A conversation in one folder."""

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
        self.on_update: Callable[[Session], None] = lambda session: None
        self.on_piece: Callable[[Session, Piece], None] = lambda session, piece: None
        self._summary = replace(summary, holder=hold.holder)
        self._journal = journal
        self._hold = hold
        self._performer = Performer(
            summary.cwd,
            settings,
            model=model,
            shell=shell,
            proposer=proposer,
            masker=masker,
            live=Live(lambda piece: self.on_piece(self, piece)),
        )
        self._driver = Driver(
            summary.id,
            append=self._append,
            perform=lambda effect: self._performer.perform(effect, self.machine),
            stop=self._performer.stop,
            on_change=self._changed,
            recover=self._recovered,
        )
        self._performer.on_retry = lambda: self._driver.later(self._driver.tell())
        self._detached: dict[str, Command] = {}
        self._expiry: asyncio.TimerHandle | None = None

    # --- what it looks like ----------------------------------------------------------------------------------------

    @property
    def machine(self) -> StepMachine:
        """The machine, to be read."""
        return self._driver.machine

    @property
    def state(self) -> State:
        """Where the session stands."""
        return self._driver.state

    @property
    def resting(self) -> bool:
        """Whether nothing is in flight."""
        return self._driver.resting

    @property
    def read_only(self) -> str:
        """Why nothing can be asked of it any more; "" if it can."""
        return self._driver.broken

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._performer.settings

    @property
    def model(self) -> AnyModel:
        """The model that is asked."""
        return self._performer.model

    @property
    def proposer(self) -> Proposer:
        """What judges its commands."""
        return self._performer.proposer

    @property
    def live(self) -> Live:
        """The texts that still grow."""
        return self._performer.live

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
            model=self.model.name,
            pending=len(record.with_status(CallStatus.AWAITING_APPROVAL)),
        )

    @property
    def detached(self) -> list[Call]:
        """The calls whose commands were left running and still run."""
        calls = [self.machine.record.known(key) for key in self._detached]
        return [call for call in calls if call.result is None or call.result.ending == "detached"]

    async def rested(self, after: int) -> None:
        """Return when the session rests beyond revision `after`, or is closed; a pure read, harmless to cancel."""
        await self._driver.rested(after)

    async def settled(self) -> None:
        """Return when all that happened so far is written down, so that what is shown survives a crash."""
        await self._driver.settled()

    # --- opening and closing ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin a new session."""
        await self._driver.act(self._configured(self.settings))

    async def resume(self) -> None:
        """Take the session up where the journal ends: what was in flight is interrupted, what waited waits again."""
        machine, problem = await self._replayed()
        self._driver.machine, self._driver.broken = machine, problem
        if problem:
            self._settle_in_memory(machine)
            return
        if not self.state.resting:
            await self._settle_interrupted()
        await self.judge_again()

    async def close(self) -> None:
        """Stop what is in flight, say so in the record, and let go; returns within about two seconds."""
        if self._driver.closing:
            return
        working = not self.resting
        self._driver.closing = True
        try:
            if working:
                await self._settle_interrupted()
            if not self.read_only:
                self.machine.feed(ev.Closed(time.time()))
        except HandrailError as error:
            log.error("Session %s could not be closed in order: %s", self.id, error)
        await self._let_go()
        await self._driver.tell()

    async def _replayed(self) -> tuple[StepMachine, str]:
        """Return the machine as the journal has it, and why that may not be all: "" or a sentence."""
        events, problem = await self._journal.events(self.id)
        machine = StepMachine()
        for event in events:
            machine.feed(event)
        return machine, problem

    async def _recovered(self) -> StepMachine:
        """Return the machine as a later load will find and settle it; as it is now if the journal cannot be read."""
        try:
            machine, _ = await self._replayed()
        except JournalError:
            machine = self.machine
        self._settle_in_memory(machine)
        return machine

    def _settle_in_memory(self, machine: StepMachine) -> None:
        """Bring a machine to rest of which nothing more can be written."""
        if not machine.state.resting:
            machine.feed(ev.Interrupted(time.time()))
            machine.feed(self._performer.observed(machine))

    async def _settle_interrupted(self) -> None:
        """Record that the work was cut, and what the model is told of it."""
        await self._driver.feed(ev.Interrupted(time.time()))
        await self._driver.feed(self._performer.observed(self.machine))

    async def _let_go(self) -> None:
        self._disarm()
        await self._driver.end(CLOSE_SECONDS)
        await self._performer.shell.close()
        await self.model.close()
        self.live.drop()
        self._hold.release()

    # --- what can be asked of it -----------------------------------------------------------------------------------

    async def step(self, prompt: str | None, max_steps: int | None, context: Sequence[ContextItem] = ()) -> None:
        """Start steps: of a new turn with a prompt and what the editor gives with it, else of the unfinished one."""
        mask, templates = self._performer.masker.mask, self._performer.templates
        values = self._performer.values(self.machine)
        message = None
        if prompt is not None:
            told = (templates.task.render(values, task=prompt), told_context(context, self.cwd))
            message = UserMessage(mask("\n\n".join(filter(None, told))))
            first_line = mask(prompt).strip().split("\n", 1)[0]
            title = self._summary.title or first_line[:_TITLE_CHARACTERS]
            self._summary = replace(self._summary, title=title)
        system: str | None = None
        files: tuple[str, ...] = ()
        if not self.machine.record.system:
            found = await asyncio.to_thread(read_instructions, self.cwd) if self.proposer.trusted else Instructions()
            system = mask(f"{templates.system.render(values)}\n{found.text}".strip())
            files = found.files
        shown = mask(prompt or "")
        await self._driver.act(ev.StepRequested(time.time(), message, max_steps, system, shown, files))

    async def decide(self, decisions: Sequence[Decision]) -> None:
        """Take a person's decisions, all or none; edited proposals are judged first."""
        record, mask = self.machine.record, self._performer.masker.mask
        check_decisions(record, decisions)
        for each in decisions:
            text = (each.edited or record.known(each.key).to_run).command
            if each.remember and not self.proposer.may_remember(record, text, each.remember):
                raise StaleDecision(
                    f"The decision about call {each.key} cannot be remembered so: it is not offered for it."
                )
        judged = tuple(self._judge_edit(replace(each, reason=mask(each.reason))) for each in decisions)
        await self._driver.act(ev.Decided(time.time(), judged))

    def edited(self, key: str, command: str) -> Decision:
        """Return the approval of call `key` with another text; raises `StaleDecision` if it cannot be run."""
        call = self.machine.record.find(key)
        if call is None or call.shown is None:
            raise StaleDecision(f"There is no call {key!r} to decide; nothing was decided.")
        if error := self._unusable(command):
            raise StaleDecision(f"The edited command of call {key} cannot be run: {error}")
        return Decision(key, "approve_edited", call.shown.digest, edited=replace(call.shown, command=command))

    def _judge_edit(self, decision: Decision) -> Decision:
        if decision.edited is None:
            return decision
        return replace(decision, edited_verdict=self.proposer.judge(self.machine.record, decision.edited.command))

    async def cancel(self, key: str | None = None) -> None:
        """Cancel the turn, or the one running command `key`; harmless to repeat."""
        if key is not None:
            command = self._running(key) or self._detached.get(key)
            if command is not None:
                command.cancel()
        elif self.state in (State.QUERYING, State.EXECUTING, State.AWAITING_APPROVAL, State.OBSERVING):
            await self._driver.act(ev.CancelRequested(time.time()))

    async def run(self, command: str) -> None:
        """Run a command of the person's own, without a question."""
        if error := self._unusable(command):
            raise UsageError(f"The command cannot be run: {error}")
        if not self.proposer.trusted:
            raise UsageError(
                f"The folder {self.cwd} is not trusted, so nothing runs in it; trust it in the editor first."
            )
        key = f"{len(self.machine.record.steps) + 1}.1"
        await self._driver.act(ev.PersonRan(time.time(), self.proposer.proposal(key, command, None)))

    async def configure(self, settings: Settings, model: AnyModel, proposer: Proposer) -> None:
        """Take new settings; they hold from the next query, and what is pending is judged again."""
        templates = load(settings.templates)
        await self._driver.act(self._configured(settings))
        performer, old = self._performer, self.model
        performer.settings, performer.model = settings, model
        performer.proposer, performer.templates = proposer, templates
        if old is not model:
            await old.close()
        await self.judge_again()

    async def judge_again(self) -> None:
        """Judge again what has not started; it may refuse a call or ask for it, never start one.

        A judgement that is as before leaves no trace, so that loading a session again adds nothing to it.
        """
        if self.state is not State.AWAITING_APPROVAL:
            return
        record = self.machine.record
        verdicts = [
            (call, self.proposer.judge(record, call.to_run.command))
            for call in record.with_status(CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED)
        ]
        changed = tuple((call.key, verdict) for call, verdict in verdicts if verdict != call.verdict)
        if changed:
            await self._driver.act(ev.Rejudged(time.time(), changed))

    async def queue(self, prompt: str) -> None:
        """Keep a prompt for the next query of the running turn."""
        if self.state is State.IDLE:
            raise IllegalEvent("No turn is running: send the prompt with a step.")
        text = self._performer.masker.mask(prompt)
        await self._driver.act(ev.Queued(time.time(), UserMessage(text, "queued"), text))

    async def unqueue(self, prompt_id: str) -> None:
        """Withdraw a queued prompt."""
        await self._driver.act(ev.Unqueued(time.time(), prompt_id))

    async def compact(self) -> None:
        """Send less of the conversation from now on; the record stays whole."""
        await self._driver.act(ev.Compacted(time.time(), compacted_budget(self.machine.record)))

    async def detach(self, key: str) -> None:
        """Leave the running command `key` running and go on; the session's close ends it."""
        command = self._running(key)
        if command is None:
            raise IllegalEvent(f"Call {key} is not running, so it cannot be left running.")
        self._detached[key] = command
        self.live.keep(key)
        command.detach()
        call = self.machine.record.known(key)
        await self._driver.until(lambda: call.status is not CallStatus.RUNNING)
        self._driver.later(self._follow_detached(call, command))

    async def _follow_detached(self, call: Call, command: Command) -> None:
        """Record how a command ended that was left running; the session's own close ends it without a word."""
        result = await command.ended()
        self.live.let_go(call.key)
        try:
            if call.reason is Reason.DETACHED and not self._driver.closing:  # else it had just ended
                await self._driver.act(ev.DetachedEnded(time.time(), call.key, result))
        except JournalError as error:
            log.error("Session %s: the end of call %s is not recorded: %s", self.id, call.key, error)
        finally:
            del self._detached[call.key]

    # --- inside ----------------------------------------------------------------------------------------------------

    def _running(self, key: str) -> Command | None:
        call = self.machine.record.find(key)
        return self._performer.command if call is not None and call.status is CallStatus.RUNNING else None

    def _unusable(self, command: str) -> str:
        """Say why a person's command cannot be run, "" if it can."""
        if self._performer.masker.holds_provider_key(command):
            return "It holds the key of a model provider, which must never be used."
        return command_error(command)

    def _configured(self, settings: Settings) -> ev.Configured:
        stored = to_stored(settings, self._performer.masker)
        return ev.Configured(time.time(), settings.limits.for_machine(), stored)

    async def _append(self, event: ev.Event, durable: bool) -> None:
        await self._journal.append(self.summary, self.machine.record.revision, event, durable=durable)

    def _changed(self) -> None:
        self._disarm()
        if self.settings.approval_timeout and self.state is State.AWAITING_APPROVAL:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self.settings.approval_timeout, lambda: self._driver.later(self._expire()))
        self.on_update(self)

    def _disarm(self) -> None:
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None

    async def _expire(self) -> None:
        if self.state is State.AWAITING_APPROVAL:
            keys = tuple(call.key for call in self.machine.record.with_status(CallStatus.AWAITING_APPROVAL))
            await self._driver.act(ev.Expired(time.time(), keys))
