"""Whether everything the server needs is there, and what to do where it is not.

Invariants: names of keys, never values; a check that cannot be made says so; nothing heavy is imported for it.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from agent_core.errors import SettingsError
from agent_core.keys import KEY_VARIABLES, key_variables
from agent_core.settings import Settings
from agent_core.shell import find_bash, offers
from server import protocol as wire
from server.keeper import KEPT
from server.registry import config_file, state_folder

_PACKAGES = ("handrail", "pygls", "lsprotocol", "litellm", "pydantic", "tree-sitter-bash")


async def health(settings: Settings | None, refused: str, environ: Mapping[str, str]) -> wire.Health:
    """Check the server; `refused` says why there are no settings."""
    checks = [_bash(environ), _state(environ), _settings(refused, environ)]
    if settings is not None:
        checks += list(_model(settings, environ))
    sandboxed = settings is not None and settings.sandbox != "off"
    checks += [
        wire.Check(name=offer.name, ok=offer.ok or not (sandboxed and offer.name == "sandbox"), detail=offer.detail)
        for offer in await offers()
        if offer.name != "bash"
    ]
    checks.append(_keeper())
    present = [name for names in KEY_VARIABLES.values() for name in names if environ.get(name)]
    return wire.Health(
        checks=checks,
        versions=[wire.Fact(name="python", value=platform.python_version()), *_versions()],
        paths=[
            wire.Fact(name="state", value=str(state_folder(environ))),
            wire.Fact(name="settings", value=str(config_file(environ))),
        ],
        key_names=present,
    )


def _bash(environ: Mapping[str, str]) -> wire.Check:
    try:
        return wire.Check(name="bash", ok=True, detail=find_bash(environ))
    except SettingsError as error:
        return wire.Check(name="bash", ok=False, detail="not found", way_out=str(error))


def _keeper() -> wire.Check:
    if KEPT.keeper is not None:
        detail = (
            "whatever a command leaves behind ends with the server, also with one that is killed; "
            "only a command that kills both the server and its keeper, or has another user's rights, can leave more"
        )
    else:
        detail = (
            "none (it needs Linux 5.3, and `handrail serve`); "
            "of what commands leave behind, only what bears its mark ends with a server that is killed"
        )
    return wire.Check(name="keeper", ok=True, detail=detail)


def _state(environ: Mapping[str, str]) -> wire.Check:
    folder = state_folder(environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:  # permissions alone do not tell of a full disk
            file.write(bytes(4096))
            file.flush()
    except OSError as fault:
        detail = f"nothing can be written to {folder}: {fault.strerror}"
        way_out = "Free space, make the folder writable, or set HANDRAIL_STATE_DIR to another one."
        return wire.Check(name="state folder", ok=False, detail=detail, way_out=way_out)
    return wire.Check(name="state folder", ok=True, detail=str(folder))


def _settings(refused: str, environ: Mapping[str, str]) -> wire.Check:
    return wire.Check(
        name="settings",
        ok=not refused,
        detail=refused or str(config_file(environ)),
        way_out="Correct the setting that is named." if refused else None,
    )


def _model(settings: Settings, environ: Mapping[str, str]) -> Iterator[wire.Check]:
    if settings.replay:
        yield wire.Check(name="model", ok=True, detail=f"replayed from {settings.replay}")
        return
    if not settings.model:
        way_out = "Give --model NAME, or set `model` in the settings."
        yield wire.Check(name="model", ok=False, detail="none is chosen", way_out=way_out)
        return
    yield wire.Check(name="model", ok=True, detail=settings.model)
    names = key_variables(settings.model)
    if not names:
        yield wire.Check(name="key", ok=True, detail="none is known to be needed")
        return
    found = next((name for name in names if environ.get(name)), "")
    missing = None if found or settings.api_base else f"Set {names[0]} in the environment that starts the server."
    yield wire.Check(name="key", ok=missing is None, detail=found or f"no {names[0]}", way_out=missing)


def _versions() -> Iterator[wire.Fact]:
    for name in _PACKAGES:
        try:
            yield wire.Fact(name=name, value=version(name))
        except PackageNotFoundError:
            yield wire.Fact(name=name, value="not installed")
