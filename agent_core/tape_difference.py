"""Tells in words how two recordings of the same task differ: what a provider does otherwise today.

Invariants: pure; ids, times and the wording of texts are no differences, for they change with every call; paths of the
bodies that came or went are, for they show a provider's change of form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_core.tape import Frame, Tape
from agent_core.tape_marks import shape

_PATHS_SHOWN = 12


def tape_differences(old: Tape, new: Tape) -> list[str]:
    """Return one line per difference, oldest frame first; [] if the new tape could stand in the old one's place."""
    lines = [
        f"{name}: {was} then, {now} now"
        for name, was, now in (("model", old.model, new.model), ("dialect", old.dialect, new.dialect))
        if was != now
    ]
    for number, (one, other) in enumerate(zip(old.frames, new.frames, strict=False), 1):
        lines += [f"frame {number}: {line}" for line in _frame_differences(one, other)]
    if len(old.frames) != len(new.frames):
        lines.append(f"frames: {len(old.frames)} then, {len(new.frames)} now")
    return lines


def _frame_differences(old: Frame, new: Frame) -> list[str]:
    if old.is_failure or new.is_failure:
        was, now = _outcome(old), _outcome(new)
        return [f"{was} then, {now} now"] if was != now else []
    lines = _reading_differences(old.about.get("expect", {}), new.about.get("expect", {}))
    before, after = set(shape(_received(old))), set(shape(_received(new)))
    lines += _paths("no longer sends", before - after)
    lines += _paths("now sends", after - before)
    return lines


def _reading_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if not old or not new:
        return []
    lines = [f"stopped by {old.get('stop')} then, {new.get('stop')} now"] if old.get("stop") != new.get("stop") else []
    was, now = ([call.get("arguments") for call in each.get("calls", [])] for each in (old, new))
    if was != now:
        lines.append(f"called {_calls(was)} then, {_calls(now)} now")
    return lines


def _outcome(frame: Frame) -> str:
    if not frame.is_failure:
        return "a reply"
    return f"a failure ({frame.about.get('status') or frame.about.get('error') or 'of unknown kind'})"


def _received(frame: Frame) -> Sequence[Any]:
    return [frame.body] if frame.events is None else frame.events


def _paths(verb: str, paths: set[str]) -> list[str]:
    shown = sorted(paths)[:_PATHS_SHOWN]
    more = f" and {len(paths) - len(shown)} more" if len(paths) > len(shown) else ""
    return [f"{verb} {', '.join(shown)}{more}"] if shown else []


def _calls(arguments: Sequence[Any]) -> str:
    return ", ".join(str(each) for each in arguments) or "nothing"
