"""Names that stand for secrets, and names that only look so."""

from __future__ import annotations

import pytest

from agent_core.secret_names import is_env_file, is_sensitive, may_hold_secrets


@pytest.mark.parametrize(
    "name", [".env", ".env.local", ".env.production", ".envrc", "prod.env", ".ENV", "a.b.env", ".env.example.local"]
)
def test_environment_files(name: str) -> None:
    assert is_env_file(name)
    assert may_hold_secrets(name)


@pytest.mark.parametrize("name", [".env.example", ".env.sample", ".env.template", ".env.dist", ".env.local.example"])
def test_their_samples_are_made_to_be_shown(name: str) -> None:
    assert not is_sensitive(name)


@pytest.mark.parametrize("name", ["id_rsa", "id_ed25519", "x.pem", "tls.key", ".npmrc", ".netrc", "credentials.json"])
def test_keys(name: str) -> None:
    assert may_hold_secrets(name)
    assert not is_env_file(name)


@pytest.mark.parametrize("name", [".gitattributes", ".vscode", ".git", ".bashrc", ".handrail.toml"])
def test_configuration_is_sensitive_but_no_secret(name: str) -> None:
    assert is_sensitive(name)
    assert not may_hold_secrets(name)


@pytest.mark.parametrize(
    "name", ["environment.py", "env", "env.ts", "keys.py", "credentials.py", "README.md", "x.enve"]
)
def test_ordinary_names(name: str) -> None:
    assert not is_sensitive(name)
