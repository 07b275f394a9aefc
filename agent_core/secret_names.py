"""Which names of files and folders stand for secrets, or for configuration that can run something.

Invariants: pure; a name is judged by itself, in any case, whatever the file holds. Well-known samples of environment
files (`.env.example`) are no secrets: they are made to be shown.
"""

from __future__ import annotations

import re

_ENV_FILE = re.compile(r"\.env(?:rc|\..*)?|.*\.env", re.IGNORECASE | re.DOTALL)
_SAMPLE = re.compile(r"\.env(?:\..*)?\.(?:example|sample|template|dist)", re.IGNORECASE | re.DOTALL)
_KEY_FILE = re.compile(
    r".*\.pem|.*\.key|.*\.p12|.*\.pfx|id_(?:rsa|dsa|ecdsa|ed25519).*|\.git-credentials|\.netrc|_netrc|\.npmrc"
    r"|\.yarnrc(?:\.yml)?|\.pypirc|\.pgpass|\.my\.cnf|\.htpasswd"
    r"|credentials(?:\.(?:cfg|conf|csv|db|enc|ini|json|properties|toml|txt|xml|ya?ml))?",
    re.IGNORECASE | re.DOTALL,
)
_CONFIGURATION = re.compile(
    r"authorized_keys|known_hosts|\.gitconfig|\.gitmodules|\.gitattributes|\.bash.*|\.zsh.*|\.profile|\.inputrc|\.vimrc"
    r"|\.handrail\.toml",
    re.IGNORECASE | re.DOTALL,
)
_KEY_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"})
_CONFIGURATION_FOLDERS = frozenset({".git", ".config", ".vscode"})


def is_env_file(name: str) -> bool:
    """Whether a file of this name holds variables of an environment, secret ones perhaps."""
    return _ENV_FILE.fullmatch(name) is not None and _SAMPLE.fullmatch(name) is None


def may_hold_secrets(name: str) -> bool:
    """Whether a file of this name may hold keys or passwords."""
    return is_env_file(name) or _KEY_FILE.fullmatch(name) is not None


def is_key_folder(name: str) -> bool:
    """Whether everything in a folder of this name may hold keys."""
    return name.lower() in _KEY_FOLDERS


def is_sensitive(name: str) -> bool:
    """Whether a file or folder of this name may hold secrets, or configuration that can run something."""
    folder = is_key_folder(name) or name.lower() in _CONFIGURATION_FOLDERS
    return folder or may_hold_secrets(name) or _CONFIGURATION.fullmatch(name) is not None
