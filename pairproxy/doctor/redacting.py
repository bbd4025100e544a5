"""Stand-ins for what names a person, a machine or a place: always the same, so that a text makes sense."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LEAST_IN_TEXT = 2  # characters of a name that is sought inside sentences; a shorter one as a whole value only
_ID = re.compile(r"(?<![A-Z2-7])[A-Z2-7]{52}(?![A-Z2-7])")
_SHORT_ID = re.compile(r"(?<![A-Z2-7])([A-Z2-7]{4})-?([A-Z2-7]{4})(?![A-Z2-7-])")
_V4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.]\d)")
_V6 = re.compile(
    r"(?<![0-9A-Za-z:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f.]{0,15}){2,8}(?:%[\w.-]{1,32})?(?![0-9A-Za-z:])"
)
_HARDWARE = re.compile(r"(?<![0-9A-Fa-f:-])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_PASSWORD = re.compile(r"(?<=://)[^/\s@]+@")


class Redactor:
    """Replaces what it was told of, and what looks like an address or an id."""

    def __init__(self, known: Iterable[tuple[str, ...]]) -> None:
        """``known``: (what they stand for, values of one thing), as ("node", its id, its name)."""
        self._stand_ins: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        for kind, *values in known:
            wanted = [value.strip() for value in values if value.strip()]
            if wanted:
                stand_in = self._stand_in(kind, wanted[0])
                self._stand_ins = {one.casefold(): stand_in for one in wanted} | self._stand_ins
        long = sorted((one for one in self._stand_ins if len(one) >= LEAST_IN_TEXT), key=len, reverse=True)
        words = "|".join(map(re.escape, long))
        self._named = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])", re.IGNORECASE) if long else None

    @property
    def told(self) -> dict[str, int]:
        """How many of each kind were replaced, or would be."""
        return dict(self._counts)

    def text(self, text: str) -> str:
        """The text with stand-ins."""
        whole = self._stand_ins.get(text.casefold())
        if whole is not None:
            return whole
        text = _PASSWORD.sub("", text)
        if self._named is not None:
            text = self._named.sub(lambda hit: self._stand_ins[hit[0].casefold()], text)
        text = _MAIL.sub(lambda hit: self._stand_in("mail", hit[0]), text)
        text = _ID.sub(lambda hit: self._stand_in("node", hit[0]), text)
        text = _HARDWARE.sub(lambda hit: self._stand_in("hardware", hit[0]), text)
        text = _V6.sub(lambda hit: self._address(hit[0]), text)
        return _V4.sub(lambda hit: self._address(hit[0]), text)

    def value(self, value: Any) -> Any:
        """The same of everything in a JSON value, the names of its fields included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(one) for key, one in value.items()}
        if isinstance(value, Sequence):
            return [self.value(one) for one in value]
        return value

    def _stand_in(self, kind: str, value: str) -> str:
        key = value.casefold()
        if key not in self._stand_ins:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._stand_ins[key] = f"{kind}-{self._counts[kind]}"
        return self._stand_ins[key]

    def _address(self, text: str) -> str:
        """Its stand-in; what only this machine or no machine has stays, as does what is no address."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return text
        return self._stand_in("address", str(address))
