from pairproxy.takeover.moving import Owner, Plan
from pairproxy.takeover.steps import Run


def test_an_owner_is_told_in_a_few_words() -> None:
    """What is known of it, and nothing that is not."""
    owner = Owner("systemd", 11434, ("127.0.0.1",), 7, "ollama", "ollama", "ollama.service")
    assert owner.told() == "ollama (pid 7, user ollama, system unit ollama.service)"
    assert Owner("unknown", 11434, ("127.0.0.1",)).told() == "a program"
    assert (
        Owner("container", 11434, (), name="docker-proxy", unit="box").told()
        == "docker-proxy (container box)"
    )


def test_other_machines_reach_what_is_not_on_loopback() -> None:
    """One address is enough."""
    for hosts, is_exposed in (
        (("127.0.0.1", "::1"), False),
        (("127.0.0.53",), False),
        (("0.0.0.0",), True),
        (("127.0.0.1", "::"), True),
        (("192.168.1.5",), True),
    ):
        assert Owner("unknown", 1, hosts).is_exposed is is_exposed


def test_a_plan_needs_root_if_a_step_does() -> None:
    """Then sudo asks before anything is done."""
    assert not Plan((Run(("a",)),)).needs_root
    assert Plan((Run(("a",)), Run(("b",), needs_root=True))).needs_root
