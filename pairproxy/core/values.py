"""Frozen values that are made as fast as others: a dozen of them are made for each request.

    @value(frozen=True, slots=True)          in place of @dataclass(frozen=True, slots=True)

mypy takes it for a dataclass, so nobody changes one; but none is guarded against it at each assignment, which
takes two thirds of the time in which a frozen dataclass is made (a Request: 1.9 us, so 0.3).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool) -> Any:
        """A dataclass that is equal to and hashed like a frozen one."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["value"]
