import pytest

from pairproxy.takeover.cgroups import Place, read

ID = "0b3a" * 16

CASES = {
    "system unit": ("0::/system.slice/ollama.service\n", Place("systemd", "ollama.service")),
    "template": ("0::/system.slice/system-x.slice/ollama@a.service\n", Place("systemd", "ollama@a.service")),
    "version 1": (
        "12:cpu:/\n1:name=systemd:/system.slice/ollama.service\n0::/\n", Place("systemd", "ollama.service"),
    ),
    "user unit": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/ollama.service\n",
        Place("systemd-user", "ollama.service", 1000),
    ),
    "log-in session": ("0::/user.slice/user-1000.slice/session-2.scope\n", Place("")),
    "desktop's terminal": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope\n", Place(""),
    ),
    "docker": (f"0::/system.slice/docker-{ID}.scope\n", Place("container", ID)),
    "docker, version 1": (f"3:cpu:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", Place("container", ID)),
    "podman": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container\n",
        Place("container", ID),
    ),
    "snap": ("0::/system.slice/snap.ollama.listener.service\n", Place("snap", "ollama")),
    "none": ("0::/\n", Place("")),
    "not Linux": ("", Place("")),
    "nonsense": ("a\nb:c\n::::\n", Place("")),
}  # fmt: skip


@pytest.mark.parametrize(("text", "place"), CASES.values(), ids=CASES)
def test_a_cgroup_tells_who_started_a_process(text: str, place: Place) -> None:
    """As the kernel writes it."""
    assert read(text) == place


def test_our_own_container_is_no_other() -> None:
    """Where pairproxy and the engine are in one container, that says nothing of the engine."""
    text = f"0::/docker/{ID}\n"
    assert read(text, own=text) == Place("")
