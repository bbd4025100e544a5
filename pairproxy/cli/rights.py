"""pairproxy rights: what a paired machine may have of this one, and whether this one uses it."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pairproxy.api.commands import InForce
from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.trusting import Models, Peer, Slots, found_in, named, share

if TYPE_CHECKING:
    from pairproxy.security.peer_record import PeerRecord

MayUseMe = Annotated[
    bool | None,
    typer.Option(
        "--may-use-me/--may-not-use-me", help="Whether it may use this machine.", show_default=False
    ),
]
IMayUse = Annotated[
    bool | None,
    typer.Option("--i-may-use/--i-may-not-use", help="Whether this machine uses it.", show_default=False),
]
MayAddModels = Annotated[
    bool | None,
    typer.Option(
        "--may-add-models/--may-not-add-models",
        help="Whether it may have models copied to the Ollama of this machine, with `pairproxy replicate`.",
        show_default=False,
    ),
]
AnySlots = Annotated[bool, typer.Option("--any-slots", help="As many as peers.max_slots says, or all.")]
AllModels = Annotated[bool, typer.Option("--all-models", help="It may use every model here.")]


def rights(
    peer: Peer,
    may_use_me: MayUseMe = None,
    i_may_use: IMayUse = None,
    may_add_models: MayAddModels = None,
    slots: Slots = None,
    any_slots: AnySlots = False,
    models: Models = None,
    all_models: AllModels = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show or change what a paired machine may have here. Counts from its next request on.

    Models that it may not use do not exist for it. Taking away the right to use this machine ends what it
    runs here.

    Examples: `pairproxy rights ben-ws`, `pairproxy rights ben-ws --slots 1 --model 'qwen*'`,
    `pairproxy rights ben-ws --may-not-use-me`.
    """
    from pairproxy.api.client import trust_changed

    if (slots is not None and any_slots) or (models and all_models):
        raise typer.BadParameter("--slots and --any-slots, or --model and --all-models, exclude each other.")
    directory = home_or_default(home)
    store, record = found_in(directory, peer)
    changes: dict[str, object] = {}
    if may_use_me is not None:
        changes["may_use_me"] = may_use_me
    if i_may_use is not None:
        changes["i_may_use"] = i_may_use
    if may_add_models is not None:
        changes["may_add_models"] = may_add_models
    if slots is not None or any_slots:
        changes["slots"] = slots
    if models or all_models:
        changes["models"] = tuple(models or ())
    if changes:
        record = store.change(record.node, lambda one: msgspec.structs.replace(one, **changes))
    _say(record, trust_changed(directory), as_json)


def _say(record: "PeerRecord", has_daemon: bool, as_json: bool) -> None:
    if as_json:
        found = InForce(
            record.name,
            record.node,
            record.may_use_me,
            record.i_may_use,
            record.slots,
            record.models,
            has_daemon,
            record.may_add_models,
        )
        typer.echo(msgspec.json.encode(found).decode())
        return
    allowed = share(record.may_use_me, record.slots, record.models)
    typer.echo(f"{named(record)} may use this machine: {allowed}")
    if record.may_add_models:
        typer.echo(f"{named(record)} may add models to this machine: {'yes' if record.may_use_me else 'no'}")
    typer.echo(f"This machine may use {plain(record.name)}: {'yes' if record.i_may_use else 'no'}")
