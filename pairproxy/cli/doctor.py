"""pairproxy doctor: is it set up right; what is wrong, what it means, and the command that mends it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, counted, say

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.diagnosis import Diagnosis, Finding
    from pairproxy.doctor.examining import Examined
    from pairproxy.doctor.probes.scene import Scene

STYLES = {"problem": "bold red", "warning": "yellow", "note": ""}


def doctor(
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Also send short requests to the engines: how many run at once."),
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Write what was found, without names and addresses, to attach to a bug report."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Look whether it is set up right; each finding says what mends it. With and without a daemon.

    Changes nothing. Exit status 0: nothing to mend (notes do not count), 1: something is.

    Examples: `pairproxy doctor`, `pairproxy doctor --json`, `pairproxy doctor --measure`,
    `pairproxy doctor --bundle report.zip`.
    """
    from pairproxy.core.errors import SetupError
    from pairproxy.doctor.examining import examine, scene_of

    scene = scene_of(home_or_default(home))
    if scene.home.exists() and not scene.home.is_dir():
        raise SetupError(
            f"{scene.home} is not a directory, so it is no home of pairproxy. Name another --home."
        )
    out = console(to_stderr=True)
    with out.status("looking", spinner="line"):  # on a terminal only; it takes two seconds
        found = examine(scene, measures=measure)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found.diagnosis), indent=2).decode())
    else:
        _show(console(), found.diagnosis)
    if bundle is not None:
        _write(out, bundle, scene, found)
    if not found.diagnosis.is_ok:
        raise typer.Exit(1)


def _write(out: "Console", bundle: Path, scene: "Scene", found: "Examined") -> None:
    from pairproxy.doctor.bundle import write

    written = write(bundle, scene, found)
    say(out, f"{bundle} holds {', '.join(written.files)}. {written.replaced}")


def _show(out: "Console", diagnosis: "Diagnosis") -> None:
    for finding in diagnosis.findings:
        _show_finding(out, finding)
    for seen in diagnosis.measured:
        did = f"computed {seen.at_once} of {seen.asked} requests at once"
        say(out, f"{plain(seen.engine)} has {counted(seen.slots, 'slot')} and {did}.")
    levels = [finding.level for finding in diagnosis.findings]
    counts = {"problem": levels.count("problem"), "warning": levels.count("warning")}
    told = " and ".join(counted(count, word) for word, count in counts.items() if count)
    say(out, f"{told}." if told else "Nothing to mend.")
    say(out, f"Looked at {counted(len(diagnosis.looked_at), 'thing')}: {', '.join(diagnosis.looked_at)}.")
    say(out, f"This is pairproxy {diagnosis.version}{', compiled' if diagnosis.is_compiled else ''}.")
    why: dict[str, list[str]] = {}
    for one in diagnosis.not_looked_at:
        why.setdefault(one.why, []).append(one.what)
    for reason, things in why.items():
        say(out, f"Not looked at: {', '.join(things)} ({plain(reason)}).")


def _show_finding(out: "Console", finding: "Finding") -> None:
    say(out, f"{finding.level}: {plain(finding.means)} [{finding.id}]", style=STYLES[finding.level])
    if finding.mend:
        say(out, f"  {plain(finding.mend)}", hang=0)
    out.print()
