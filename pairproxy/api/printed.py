"""What commands print with --json: which documents, of which command."""

from collections.abc import Mapping

from pairproxy.api import commands, results, service, settings
from pairproxy.api.advice import AdviceReport
from pairproxy.api.diagnosis import Diagnosis
from pairproxy.api.models import ModelMatrix
from pairproxy.api.offering import DrainAnswer
from pairproxy.api.replication import CopyProgress
from pairproxy.api.runs import Exported, Runs
from pairproxy.api.schema import Explanation, Report, SettingsReread, Status

PRINTED: Mapping[str, tuple[type, ...]] = {
    "status": (Status,),
    "report": (Report, Runs, Exported),
    "explain": (Explanation,),
    "models": (ModelMatrix,),
    "advise": (AdviceReport,),
    "whatif": (results.WhatIf,),
    "demo": (results.DemoResult,),
    "bench": (results.BenchResult, results.BenchLevers, results.BenchHere),
    "peers": (commands.Peers,),
    "rights": (commands.InForce,),
    "forget": (commands.Forgot,),
    "reload": (SettingsReread,),
    "replicate": (CopyProgress,),
    "drain": (DrainAnswer,),
    "resume": (DrainAnswer,),
    "pair": (commands.Offered, commands.Paired),
    "join": (commands.Paired,),
    "doctor": (Diagnosis,),
    "takeover": (commands.Takeover,),
    "release": (commands.Release,),
    "keys add": (commands.KeyMade,),
    "keys list": (commands.KeyList,),
    "keys revoke": (commands.KeyRevoked,),
    "service install": (service.ServiceChanged,),
    "service uninstall": (service.ServiceChanged,),
    "service status": (service.ServiceStatus,),
    "config show": (settings.ShownSettings,),
    "config check": (settings.Checked,),
    "config path": (settings.ConfigPath,),
}
"""Which documents `pairproxy COMMAND --json` prints.

Of pair and replicate each is a line; of the others there is one.
"""
