import typer

from pairproxy.cli.commands import app


def test_every_command_says_what_it_does() -> None:
    """In its list each has a sentence, and no paragraph of a help breaks where its source does."""
    root = typer.main.get_command(app)
    assert isinstance(root, typer.core.TyperGroup)
    for name, command in root.commands.items():
        assert command.help, name
        assert all("\n" not in one for one in command.help.split("\n\n")), name
