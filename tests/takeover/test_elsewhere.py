"""Who started an engine, by the path of its program; paths as they were seen in sources and reports."""

import pytest

from pairproxy.config import EngineKind
from pairproxy.takeover.elsewhere import Elsewhere, bundle_of, of
from pairproxy.takeover.moving import Move
from pairproxy.takeover.owning import Process, classify
from pairproxy.takeover.plan import MOVERS
from pairproxy.takeover.running import Runner

APP = "/Applications/Ollama.app/Contents/Resources/ollama"
LABEL = "homebrew.mxcl.ollama"
LOCAL = r"C:\Users\me\AppData\Local"
KNOWN: dict[str, tuple[str, bool, list[str], Elsewhere | None]] = {
    "the app of macOS": (APP, False, ["Ollama", "launchd"], ("app", "Ollama")),
    "a second copy of it": (
        "/Volumes/apps/Ollama 2.app/Contents/Resources/ollama", False, ["Ollama"], ("app", "Ollama"),
    ),
    "its command in a terminal": (APP, True, ["zsh", "Terminal"], ("terminal", "")),
    "Homebrew on Apple silicon": (
        "/opt/homebrew/Cellar/ollama/0.33.0/bin/ollama", False, ["launchd"], ("homebrew", LABEL),
    ),
    "Homebrew on Intel, by its link": (
        "/usr/local/opt/ollama/bin/ollama", False, ["launchd"], ("homebrew", LABEL),
    ),
    "Homebrew's in a terminal": (
        "/opt/homebrew/Cellar/ollama/0.33.0/bin/ollama", True, ["fish"], ("terminal", ""),
    ),
    "the app of Windows": (
        rf"{LOCAL}\Programs\Ollama\ollama.exe", False, ["ollama app.exe", "explorer.exe"], ("app", "Ollama"),
    ),
    "the app of Windows, whose parent has ended": (
        rf"{LOCAL}\Programs\Ollama\ollama.exe", False, [], ("app", "Ollama"),
    ),
    "a Windows service": (
        r"C:\Ollama\ollama.exe", False, ["nssm.exe", "services.exe"], ("windows-service", "nssm.exe"),
    ),
    "PowerShell": (rf"{LOCAL}\Programs\Ollama\ollama.exe", False, ["powershell.exe"], ("terminal", "")),
    "LM Studio on macOS": (
        "/Applications/LM Studio.app/Contents/MacOS/LM Studio", False, ["launchd"], ("lmstudio", "LM Studio"),
    ),
    "LM Studio on Windows": (
        rf"{LOCAL}\Programs\LM Studio\LM Studio.exe", False, ["explorer.exe"], ("lmstudio", "LM Studio"),
    ),
    "LM Studio's AppImage": ("/run/.mount_LM-StuX1y2/lm-studio", False, [], ("lmstudio", "LM Studio")),
    "LM Studio without a screen": (
        "/srv/me/.lmstudio/llmster/0.0.3/llmster", False, [], ("lmstudio", "LM Studio"),
    ),
    "a plain installation on Linux": ("/usr/local/bin/ollama", False, ["systemd"], None),
    "another program": ("/usr/bin/nginx", False, ["systemd"], None),
    "another app": ("/Applications/Ollamac.txt/x", False, [], None),
    "nothing at all": ("", False, [], None),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_program_is_known_by_its_path(name: str) -> None:
    """What tells nothing is left to others."""
    executable, has_terminal, started_by, expected = KNOWN[name]
    assert of(executable, has_terminal, started_by) == expected


def test_the_bundle_is_what_is_opened() -> None:
    """Wherever it was put; an app of another name is none."""
    assert bundle_of(APP) == "/Applications/Ollama.app"
    assert bundle_of("/Applications/LM Studio.app/Contents/MacOS/LM Studio") == ""
    assert bundle_of("/usr/local/bin/ollama") == ""


MOVED_BY = {
    "the app of macOS": "macos-app",
    "a second copy of it": "macos-app",
    "its command in a terminal": "refusing",
    "Homebrew on Apple silicon": "homebrew",
    "Homebrew on Intel, by its link": "homebrew",
    "Homebrew's in a terminal": "refusing",
    "the app of Windows": "windows-app",
    "a Windows service": "refusing",
    "PowerShell": "refusing",
    "LM Studio on macOS": "lms",
    "LM Studio on Windows": "lms",
    "LM Studio's AppImage": "lms",
    "LM Studio without a screen": "lms",
    "another program": "refusing",
}


@pytest.mark.parametrize("name", MOVED_BY)
def test_each_of_them_is_moved_by_who_knows_how(name: str) -> None:
    """From what a system tells of a process to the one that makes the plan."""
    executable, has_terminal, started_by, _ = KNOWN[name]
    process = Process(
        7, "x", executable, uid=501, user="me", has_terminal=has_terminal, started_by=tuple(started_by)
    )
    owner = classify(process, 11434, ("127.0.0.1",), Runner({"PATH": ""}), "", 501)
    kind: EngineKind = "lmstudio" if name.startswith("LM Studio") else "ollama"
    move = Move(kind, owner, 11434, 11534)
    assert next(one.name for one in MOVERS if one.applies(move)) == MOVED_BY[name]
