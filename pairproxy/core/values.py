"""What the fields of a value hold, for whoever reads one from JSON by its class.

A compiled class knows of its fields no more than the outermost type: `tuple`, or just `type` for a union. So
this module is not compiled, nor is one whose classes are all read so (core.documents).
"""


def spell(kind: type, **fields: object) -> None:
    """Let a class say of these fields what they hold, in full."""
    kind.__annotations__.update(fields)
