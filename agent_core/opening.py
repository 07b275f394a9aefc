"""From settings to a working session: the model, the shell, the policy and the masker that it works with.

Invariants: all sessions share one model worker, started when the first of them has a live model; nothing a workspace's
files say can loosen anything.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_core.dialects import dialect_for
from agent_core.errors import HandrailError, SettingsError
from agent_core.journal import Journal, SessionSummary
from agent_core.keys import KEY_VARIABLES
from agent_core.model import AnyModel, Model
from agent_core.policy import Policy
from agent_core.prices import read_price_file
from agent_core.proposing import Proposer
from agent_core.provider import Provider
from agent_core.redaction import Masker
from agent_core.regular_files import read_regular
from agent_core.rotation import Rotation
from agent_core.rules import Examples, Rule, loosening, merge_rules
from agent_core.secret_files import SecretFiles
from agent_core.session import Session
from agent_core.settings import WORKSPACE_FILE, RuleSettings, Settings, workspace_rules
from agent_core.shell import Shell, find_bash
from agent_core.source import OnExchange, Source
from agent_core.stored_settings import from_stored
from agent_core.tape import Tape, TapeSource
from agent_core.tape_recorder import Recorder

_DOTENV_BYTES = 64 * 1024

log = logging.getLogger(__name__)

Prices = Mapping[str, Mapping[str, Any]]
"""Price entries by model name, as in `prices.py`."""


class Opener:
    """Makes sessions. `environ` is the server's environment as it was at start, provider keys included."""

    def __init__(self, journal: Journal, environ: Mapping[str, str], *, can_ask: bool) -> None:
        self._journal = journal
        self._environ = environ
        self._can_ask = can_ask
        self._key_names = [name for names in KEY_VARIABLES.values() for name in names if environ.get(name)]
        self.masker = Masker.from_sources(environ, provider_keys=self._key_names)
        self._provider = Provider(environ, mask=self.masker.mask)
        self.unsaved: Callable[[str, str], tuple[str, ...]] = lambda cwd, command: ()
        self._distrusted: set[str] = set()
        self._bash = ""

    @property
    def provider(self) -> Provider:
        """The owner of the model worker."""
        return self._provider

    def trust(self, folder: str, *, trusted: bool) -> None:
        """Take the person's trust in a folder, or its end; what is not said is trusted."""
        (self._distrusted.discard if trusted else self._distrusted.add)(folder)

    def trusted(self, cwd: str) -> bool:
        """Whether the folder and those that hold it are trusted."""
        return not any(Path(cwd).is_relative_to(folder) for folder in self._distrusted)

    async def open(self, summary: SessionSummary, settings: Settings) -> Session:
        """Make a new session and enter it into the journal."""
        session = await self._make(summary, settings)
        await self._journal.add(session.summary)
        await session.open()
        return session

    async def resume(self, summary: SessionSummary) -> Session:
        """Take a stored session up where it ended; its last settings hold, without `trusted`."""
        events, _ = await self._journal.events(summary.id)
        stored = next((each.settings for each in reversed(events) if hasattr(each, "settings")), "{}")
        settings = from_stored(stored)
        session = await self._make(summary, settings)
        try:
            await session.resume()
        except HandrailError:
            await session.close()
            raise
        return session

    async def configure(self, session: Session, settings: Settings) -> None:
        """Give an open session other settings."""
        files = SecretFiles(session.cwd)
        masker = await asyncio.to_thread(self._session_masker, session.cwd, files)
        proposer = await asyncio.to_thread(self.proposer, session.cwd, settings, masker, files)
        same = _same_model(session.settings, settings)
        model = session.model if same else await self._model(settings, session.cwd, masker)
        await session.configure(settings, model, proposer)

    async def close(self) -> None:
        """End the model worker."""
        await self._provider.close()

    async def _make(self, summary: SessionSummary, settings: Settings) -> Session:
        files = SecretFiles(summary.cwd)
        masker = await asyncio.to_thread(self._session_masker, summary.cwd, files)
        proposer = await asyncio.to_thread(self.proposer, summary.cwd, settings, masker, files)
        model = await self._model(settings, summary.cwd, masker)
        hold = self._journal.hold(summary.id)
        spool = self._journal.spool_folder(summary.id)
        return Session(
            summary,
            settings,
            journal=self._journal,
            hold=hold,
            model=model,
            shell=Shell(
                bash=self._bash, session_id=summary.id, masker=masker, spool_dir=spool, hidden=[self._journal.folder]
            ),
            proposer=proposer,
            masker=masker,
        )

    def _session_masker(self, cwd: str, files: SecretFiles) -> Masker:
        """Return a masker that also knows what the workspace's environment files hold, its `.env` first."""
        try:
            dotenv = read_regular(Path(cwd) / ".env", _DOTENV_BYTES).decode(errors="replace")
        except OSError:
            dotenv = ""
        return Masker.from_sources(self._environ, dotenv, self._key_names, files.env_texts())

    def proposer(
        self, cwd: str, settings: Settings, masker: Masker | None = None, files: SecretFiles | None = None
    ) -> Proposer:
        """Return what judges commands in a folder by these settings, and by what the folder's own file tightens."""
        self._bash = self._bash or find_bash(self._environ)
        rules = [_rule(each) if isinstance(each, RuleSettings) else each for each in settings.rules]
        own = [_rule(each) for each in workspace_rules(Path(cwd) / WORKSPACE_FILE)]
        for each in loosening(own):
            log.warning("The rule `%s` in %s is ignored: a workspace can only tighten.", each.words, WORKSPACE_FILE)
        return Proposer(
            cwd=cwd,
            bash=self._bash,
            settings=settings,
            policy=Policy([*rules, *merge_rules((), own)], settings.mode),
            environ=self._environ,
            masker=masker or self.masker,
            files=files or SecretFiles(cwd),
            can_ask=self._can_ask,
            trusted=lambda: self.trusted(cwd),
            unsaved=lambda command: self.unsaved(cwd, command),
        )

    async def _model(self, settings: Settings, cwd: str, masker: Masker) -> AnyModel:
        if settings.replay is not None:
            tape = await asyncio.to_thread(_load_tape, settings.replay)
            source = TapeSource(tape, strict=settings.strict_replay, workspace=cwd)
            return _model_of(settings, tape.model, settings.dialect or tape.dialect, source)
        names = settings.models or [settings.model]
        if not all(names):
            raise SettingsError(
                "No model is chosen: set `model` in the settings, such as `anthropic/claude-opus-4-5`, "
                "or `replay` to a tape.",
            )
        prices = await asyncio.to_thread(_read_prices, settings.price_file)
        if settings.record and len(names) > 1:
            raise SettingsError("`record`: a tape holds what one model says, but `models` names several. Record one.")
        models = [self._live_model(settings, name, prices, _recorder(settings, name, cwd, masker)) for name in names]
        if len(models) == 1:
            return models[0]
        return Rotation(models, chance=random.Random() if settings.rotation == "random" else None)  # noqa: S311

    def _live_model(self, settings: Settings, name: str, prices: Prices, on_exchange: OnExchange | None) -> Model:
        ca_bundle = settings.ca_bundle or ""
        self._provider.warm_up(ca_bundle)
        source = self._provider.source(
            api_base=settings.api_base or "",
            timeout=settings.request_timeout,
            ca_bundle=ca_bundle,
            on_exchange=on_exchange,
        )
        return _model_of(settings, name, settings.dialect, source, prices)


def _load_tape(path: str) -> Tape:
    tape = Tape.load(Path(path).expanduser())
    if aged := tape.age_remark(datetime.now(UTC)):
        log.warning("%s", aged)
    return tape


def _recorder(settings: Settings, name: str, cwd: str, masker: Masker) -> OnExchange | None:
    if not settings.record:
        return None
    dialect = dialect_for(name, settings.dialect).name
    return Recorder(Path(settings.record).expanduser(), model=name, dialect=dialect, masker=masker, workspace=cwd).take


def _rule(settings: RuleSettings) -> Rule:
    examples = Examples(match=tuple(settings.examples.match), no_match=tuple(settings.examples.no_match))
    return Rule(match=tuple(settings.match), decision=settings.decision, why=settings.why, examples=examples)


def _read_prices(path: str | None) -> Prices:
    return read_price_file(Path(path).expanduser()) if path else {}


def _model_of(
    settings: Settings, name: str, dialect: str | None, source: Source, prices: Prices | None = None
) -> Model:
    return Model(
        name,
        dialect_for(name, dialect),
        source,
        stream=settings.stream,
        max_tokens=settings.max_tokens,
        options=settings.model_options,
        max_attempts=settings.limits.max_attempts,
        prices=prices or {},
        images=settings.images,
    )


_MODEL_SETTINGS = (
    "model",
    "models",
    "rotation",
    "price_file",
    "images",
    "strict_replay",
    "dialect",
    "api_base",
    "model_options",
    "ca_bundle",
    "max_tokens",
    "stream",
    "request_timeout",
    "replay",
    "record",
)


def _same_model(old: Settings, new: Settings) -> bool:
    return old.limits.max_attempts == new.limits.max_attempts and all(
        getattr(old, name) == getattr(new, name) for name in _MODEL_SETTINGS
    )
