"""The colours of all pictures, and what each means. Told apart by those who see no red or no green, too.

Hues after Okabe and Ito (2008), "Color Universal Design", made darker or lighter so that each has a contrast
of 3 : 1 with its background (WCAG 2.2, 1.4.11). No meaning hangs on colour alone: phases also differ by
pattern and height, the bound is a dashed line with its name.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Palette:
    """CSS colours. A bar is ``waiting``, ``load``, ``prefill``, ``decode`` in this order; ``failed`` is one
    that led to nothing."""

    background: str
    ink: str  # text
    muted: str  # scales and second lines
    grid: str  # lines that are no data
    waiting: str
    load: str
    prefill: str
    decode: str
    failed: str
    bound: str  # the line before which no schedule ends


LIGHT = Palette(
    background="#ffffff",
    ink="#1f2328",
    muted="#59636e",
    grid="#d8dee4",
    waiting="#818b98",
    load="#7d4fa6",
    prefill="#b97a00",
    decode="#0067a8",
    failed="#c8370a",
    bound="#00795a",
)
DARK = Palette(
    background="#0d1117",
    ink="#e6edf3",
    muted="#9aa4af",
    grid="#30363d",
    waiting="#7d8590",
    load="#bb93dd",
    prefill="#f0b13c",
    decode="#5aaef5",
    failed="#ff8059",
    bound="#42c79b",
)
MEANINGS: dict[str, str] = {
    "waiting": "waits",
    "load": "the model is loaded",
    "prefill": "reads the prompt",
    "decode": "writes the reply",
    "failed": "led to nothing",
    "bound": "no schedule ends before",
}
"""What a legend says of each colour."""
