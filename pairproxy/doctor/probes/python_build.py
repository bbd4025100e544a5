"""How this Python was built: by a profile of what programs do (PGO) or not, as far as it tells.

It tells how `configure` was called, and that alone is believed. The recorded flags of the compiler are those
of an ordinary build even where another was made, and PGO_PROF_USE_FLAG is what the compiler could have done.
"""

import shlex
import sys
import sysconfig
from collections.abc import Mapping
from typing import Literal

PythonBuild = Literal["optimised", "not optimised", "of the system", "unknown"]
"""of the system: a distribution built it in its way; Debian's records another build than it ships."""

BY_PROFILE = "--enable-optimizations"
OTHERWISE = ("--with-lto", "-fprofile-use", "-flto")  # then somebody optimised in a way of his own
OF_THE_SYSTEM = "/usr"


def python_build(
    told: Mapping[str, object] | None = None,
    prefix: str = sys.base_prefix,
    implementation: str = sys.implementation.name,
) -> PythonBuild:
    """``told``: its sysconfig. Windows and frameworks of macOS record nothing, or not what was built."""
    variables = sysconfig.get_config_vars() if told is None else told
    arguments = shlex.split(str(variables.get("CONFIG_ARGS") or ""))
    if implementation != "cpython" or not arguments:
        return "unknown"
    if BY_PROFILE in arguments:
        return "optimised"
    if prefix == OF_THE_SYSTEM:
        return "of the system"
    if variables.get("PYTHONFRAMEWORK") or any(flag in one for one in arguments for flag in OTHERWISE):
        return "unknown"
    return "not optimised"
