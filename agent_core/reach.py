"""Which files a program reaches by searching folders, and what is against it.

Invariants: pure but for what the context is given to ask the disk; a doubt is an objection.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agent_core.policy_context import PolicyContext

_MOST_LOOKED_UP = 64  # files whose place is looked up in ignore files; more would be slow


@dataclass(frozen=True, slots=True)
class Search:
    """Which files a program reads, and which of its words are no paths.

    `folders` are as written; what is in them is read unless the rest says that it is not.
    """

    folders: tuple[str, ...] = ()
    everywhere: bool = False  # the whole workspace, or the repository around it, rather than `folders`
    no_paths: tuple[str, ...] = ()  # words that stand by themselves but name nothing that is read
    hidden: bool = True  # whether hidden files are read that nothing asks for
    tracked: bool = False  # whether only files that git tracks are read
    follows: bool = False  # whether links below the folders are followed
    only: tuple[str, ...] = ()  # patterns of names, one of which a file must have to be read
    but: tuple[str, ...] = ()  # patterns of files' names that are left out, where `only` names none
    but_folders: tuple[str, ...] = ()

    def reads(self, path: str) -> bool:
        """Whether a file is read whose place is `path`, seen from a searched folder."""
        *folders, name = path.split("/")
        if any(fnmatchcase(folder, each) for folder in folders for each in self.but_folders):
            return False
        if self.only:
            return any(fnmatchcase(name, each) for each in self.only)
        return not any(fnmatchcase(name, each) for each in self.but)

    def paths_among(self, words: Sequence[str]) -> list[str]:
        """Return the words that may be paths."""
        paths = list(words)
        for word in self.no_paths:
            if word in paths:
                paths.remove(word)  # once: a path may be spelled like what is searched for
        return paths


def objection_to_search(program: str, searched: Search, context: PolicyContext, folder: str) -> str | None:
    """Return what is against what a program reads below the folders that it searches from `folder`, if anything."""
    for place in context.roots if searched.everywhere else searched.folders:
        top = context.resolve(posixpath.join(folder, place))
        below = context.tracked(top, searched.everywhere) if searched.tracked else context.below(top)
        read = [path for path in below.secrets if searched.reads(path)]
        if not searched.hidden and len(read) <= _MOST_LOOKED_UP:
            read = [path for path in read if _is_asked_for(path, context, top)]
        if read:
            return f"`{program}` would read `{read[0]}` in `{place}`, which may hold keys"
        if below.links and searched.follows:
            return f"`{program}` would follow the link `{below.links[0]}` in `{place}`"
        if not below.whole:
            return f"`{place}` is missing, or too large to tell whether `{program}` would read keys in it"
    return None


def _is_asked_for(path: str, context: PolicyContext, top: str) -> bool:
    hidden = any(part.startswith(".") for part in path.split("/"))
    return not hidden or context.unhidden(posixpath.join(top, path))
