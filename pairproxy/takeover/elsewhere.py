r"""Who started an engine where no systemd tells: by the path of its program, and by what started it.

Facts: Ollama's app has its server at Ollama.app/Contents/Resources/ollama (macOS), its installer puts both
into %LOCALAPPDATA%\Programs\Ollama (Windows); Homebrew has it in its Cellar. The command `ollama` of macOS is
a link into the app: run in a terminal, it is the same program.
"""

import ntpath
import posixpath
import re
from collections.abc import Sequence
from typing import Literal

Elsewhere = tuple[Literal["app", "homebrew", "windows-service", "lmstudio", "terminal"], str]

HOMEBREW_LABEL = "homebrew.mxcl.ollama"
WINDOWS_APP = "ollama app.exe"
_SERVICE_WRAPPERS = ("nssm.exe", "winsw.exe", "srvany.exe", "shawl.exe", "services.exe")
_SHELLS = ("cmd.exe", "powershell.exe", "pwsh.exe", "bash.exe", "windowsterminal.exe", "wsl.exe")
_CELLAR = re.compile(r"/(?:Cellar|opt)/ollama(?:@[^/]+)?/")
_LM_STUDIO = re.compile(
    r"LM[ -]?Studio|/\.lmstudio/|/\.cache/lm-studio/|\bllmster\b|/\.mount_LM[-_]?Stu", re.IGNORECASE
)


def of(executable: str, has_terminal: bool, started_by: Sequence[str]) -> Elsewhere | None:
    """(kind of owner, its name) of the program at ``executable``; None if its path tells nothing.

    ``started_by``: the names of its parent, of that one's parent, ...
    """
    path = executable.replace("\\", "/")
    if _LM_STUDIO.search(path):
        return "lmstudio", "LM Studio"
    parents = [one.lower() for one in started_by]
    if _name(executable) not in ("ollama", "ollama.exe"):
        return None
    if has_terminal:
        return "terminal", ""
    if bundle_of(path):
        return "app", "Ollama"
    if _CELLAR.search(path):
        return "homebrew", HOMEBREW_LABEL
    if not path.lower().endswith(".exe"):
        return None
    return _on_windows(parents)


def bundle_of(path: str) -> str:
    """The app that a program of macOS belongs to, ``/Applications/Ollama.app``; "" if to none."""
    head, separator, _ = path.partition(".app/Contents/")
    return f"{head}.app" if separator and posixpath.basename(head).startswith("Ollama") else ""


def _on_windows(parents: Sequence[str]) -> Elsewhere:
    for parent in parents:
        if parent == WINDOWS_APP:
            return "app", "Ollama"
        if parent in _SERVICE_WRAPPERS:
            return "windows-service", parent
        if parent in _SHELLS:
            return "terminal", ""
    return "app", "Ollama"  # its parent may have ended: the mover looks whether the app runs


def _name(executable: str) -> str:
    return ntpath.basename(executable).lower() if "\\" in executable else posixpath.basename(executable)
