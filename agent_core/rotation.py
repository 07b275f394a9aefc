"""Several models behind one face: each query goes to one of them, in turn or at random.

Invariants: every model speaks its own dialect and tells its own price; in turn means by the number of replies in the
conversation, so a resumed session goes on where it was; a failed query changes nothing, the same model is asked again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from agent_core.errors import SettingsError
from agent_core.model import AnyModel, OnDelta, OnRetry
from agent_core.types import AssistantTurn, Message, ModelReply


class Rotation:
    """Models asked one after the other (`chance` None) or drawn by `chance`."""

    def __init__(self, models: Sequence[AnyModel], *, chance: random.Random | None = None) -> None:
        if not models:
            raise SettingsError("A rotation needs at least one model. Name one in `model`.")
        self._models = tuple(models)
        self._chance = chance
        self._replies: int | None = None  # in the conversation so far; None until the first query counts them
        self._current = self._models[0]

    @property
    def name(self) -> str:
        """The name of the model that was asked last."""
        return self._current.name

    @property
    def dialect(self) -> str:
        """The dialect of the model that was asked last."""
        return self._current.dialect

    @property
    def context_window(self) -> int | None:
        """The smallest known window, for every model gets the whole conversation."""
        return min((model.context_window for model in self._models if model.context_window is not None), default=None)

    async def query(
        self, system: str, history: Sequence[Message], *, on_delta: OnDelta, on_retry: OnRetry
    ) -> ModelReply:
        """Ask the next model (see `Model.query`)."""
        if self._replies is None:
            self._replies = sum(isinstance(message, AssistantTurn) for message in history)
        if self._chance is None:
            self._current = self._models[self._replies % len(self._models)]
        else:
            self._current = self._chance.choice(self._models)
        reply = await self._current.query(system, history, on_delta=on_delta, on_retry=on_retry)
        self._replies += 1
        return reply

    async def close(self) -> None:
        """Close every model."""
        for model in self._models:
            await model.close()
