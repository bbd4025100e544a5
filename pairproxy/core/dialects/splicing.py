"""One reply in several parts: what a client is given of each, so that it reads as the reply of one node.

The first part passes byte by byte, in whole records: the beginning of a record that has not ended is held
back, for the rest of it may never come. Of a later part each record is written anew: it carries the names of
the first (id, created, model), says no second time who speaks, and its usage is that of all parts together.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from pairproxy.core.dialects.continuing import (
    CHAT,
    GENERATE,
    TEXT_BYTES,
    Continuable,
    is_plain_text,
)
from pairproxy.core.dialects.splicing_usage import Spent, ollama_in_all, openai_in_all
from pairproxy.core.errors import ReplyTruncated

RECORD_BYTES = 256 * 1024  # the longest that is held back; a token takes 300 bytes

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_ERROR = b"error:"  # how old llama.cpp begins the event of one
_OWN = frozenset({"choices", "usage", "timings"})  # of a record; the rest of it names the reply
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode

Record = dict[str, Any]


class Splicer:
    """Follows the parts of one reply. ``at`` is always seconds on one clock."""

    def __init__(self, asked: Continuable, at: float) -> None:
        self._asked = asked
        self._is_ollama = asked.path in (CHAT, GENERATE)
        self._spent = Spent(at)
        self._pending = bytearray()
        self._failing = bytearray()  # an error, and what came after it
        self._about: Record = {}  # what names the reply
        self._text: list[str] = []
        self._size = 0
        self._tokens = 0
        self._part = 1
        self._is_plain = True
        self._is_full = False  # as much was sent as may be
        self.is_reason_said = False
        """Whether the client has the last text and the reason why it ends, as some servers leave it at."""
        self._is_usage_said = False  # and what it used
        self.is_begun = False
        """Whether the client has a record: what comes later must follow it."""
        self.is_complete = False
        """Whether the client has the last record: there is no rest."""

    @property
    def delivered(self) -> int | None:
        """Tokens that the present part added, if another node can be asked for the rest; else None."""
        if self.is_complete or not self._is_plain or not is_plain_text(self.text):
            return None
        return self._tokens - self._spent.tokens

    @property
    def text(self) -> str:
        """What the client has of a reply that is plain text; "" if it is more than that."""
        return "".join(self._text)

    @property
    def rest_path(self) -> str:
        """Where to ask for the rest."""
        return self._asked.rest_path

    def rest(self) -> bytes:
        """The body that asks for the rest."""
        return self._asked.rest(self.text, self._tokens)

    def go_on(self, at: float) -> None:
        """From now on another node writes; what was held back of the last one is nothing."""
        limit = self._asked.limit
        self._is_full = limit is not None and self._tokens >= limit
        self._pending.clear()
        self._failing.clear()
        self._part += self.is_begun
        self._spent.end_part(self._tokens, at)

    def feed(self, data: bytes, at: float) -> bytes:
        """Take in the next bytes of a body; returns what the client gets now.

        Raises ReplyTruncated for a later part with a record that does not end.
        """
        self._pending += data
        if self._part > 1 and self._pending.startswith(_BOM):
            del self._pending[: len(_BOM)]
        end = self._end_of_records()
        if end == 0 and len(self._pending) > RECORD_BYTES:
            self._is_plain = False
            if self._part > 1:
                raise ReplyTruncated("The node that went on sent a record without an end. Send it again.")
            end = len(self._pending)
        whole = bytes(self._pending[:end])
        del self._pending[:end]
        return b"".join(self._take(record, at) for record in self._records(whole))

    def end(self, at: float) -> bytes:
        """The message of the last part is complete: the rest of what the client gets."""
        rest, failing = bytes(self._pending), bytes(self._failing)
        self._pending.clear()
        self._failing.clear()
        return (self._take(rest, at) if rest else b"") + failing

    # --- records --------------------------------------------------------------------------------------------

    def _end_of_records(self) -> int:
        """Where the last whole record ends. Of server-sent events a record ends with an empty line."""
        pending = self._pending
        if self._is_ollama:
            return pending.rfind(b"\n") + 1
        plain, windows = pending.rfind(b"\n\n"), pending.rfind(b"\n\r\n")
        return max(plain + 2 if plain >= 0 else 0, windows + 3 if windows >= 0 else 0)

    def _records(self, whole: bytes) -> Iterator[bytes]:
        record = b""
        for line in whole.splitlines(keepends=True):
            record += line
            if self._is_ollama or not line.strip():
                yield record
                record = b""
        if record:
            yield record

    def _take(self, raw: bytes, at: float) -> bytes:
        """What the client gets for one record of a node."""
        found = self._read(raw)
        if self._failing or (found is not None and found.get("error")):
            self._failing += raw[: max(RECORD_BYTES - len(self._failing), 0)]
            return b""
        if found is None:
            return raw
        self.is_begun = True
        text = self._note(found, at)
        if self._part == 1:
            self._keep(text)
            return raw
        return self._spliced(found, text)

    def _read(self, raw: bytes) -> Record | None:
        """The JSON in a record; None where there is none (an empty line, a comment, the last event)."""
        lines = raw.removeprefix(_BOM).splitlines()
        lines = [line for line in lines if line.strip() and not line.startswith(b":")]
        if not lines:
            return None
        data = lines[0] if self._is_ollama else lines[0].removeprefix(b"data:").strip()
        if data == _DONE:
            self.is_complete = True
            return None
        if lines[0].startswith(_ERROR):
            return {"error": True}
        try:
            if len(lines) > 1:
                raise ValueError
            return _decode(data)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            self._is_plain = False
            return {"error": True} if self._part > 1 else None

    def _note(self, found: Record, at: float) -> str:
        """The text of a record. What is more than text makes it a reply that cannot go on elsewhere."""
        if self._part == 1:
            self._about = {key: found[key] for key in found if key not in _OWN} | self._about
        try:
            text = self._ollama_text(found) if self._is_ollama else self._openai_text(found)
        except (AttributeError, LookupError, TypeError, ValueError):
            self._is_plain, text = False, ""
        if text:
            self._spent.saw(at)
        return text

    def _keep(self, text: str) -> None:
        """The client has this text from now on: a token, since engines send each as it comes."""
        self._tokens += bool(text)
        if self._is_plain and text:
            self._text.append(text)
            self._size += len(text)
            if self._size > TEXT_BYTES:
                self._is_plain = False
        if not self._is_plain:
            self._text.clear()

    def _ollama_text(self, found: Record) -> str:
        said = found["message"] if "message" in found else {"content": found.get("response", "")}
        if said.get("thinking") or said.get("tool_calls") or found.get("thinking") or found.get("logprobs"):
            self._is_plain = False
        self.is_complete = bool(found.get("done"))
        return str(said.get("content") or "")

    def _openai_text(self, found: Record) -> str:
        used = found.get("usage") or {}
        if self._part == 1 and isinstance(used.get("completion_tokens"), int) and found["choices"]:
            self._tokens = max(self._tokens, used["completion_tokens"] - 1)  # and the one in this record
        text = ""
        for choice in found["choices"]:
            said = choice.get("delta") or {"content": choice.get("text")}
            others = [key for key, value in said.items() if value and key not in ("content", "role")]
            if choice.get("index") or choice.get("logprobs") or others:
                self._is_plain = False
            text += said.get("content") or ""
            if self._part == 1 and choice.get("finish_reason"):
                self.is_reason_said = True
        if self._part == 1 and used:
            self._is_usage_said = self.is_reason_said
        return text

    # --- later parts ----------------------------------------------------------------------------------------

    def _spliced(self, found: Record, text: str) -> bytes:
        if self._is_ollama:
            return self._ollama_spliced(found, text)
        if self._is_over:
            text = ""
        if self._is_usage_said:
            found = {key: value for key, value in found.items() if key not in ("usage", "timings")}
        choices = [self._choice(choice) for choice in found.get("choices", [])]
        kept = [choice for choice in choices if choice is not None]
        self._keep(text)
        if not kept and not found.get("usage") and (choices or not found.get("timings")):
            return b""
        self._is_usage_said = self._is_usage_said or (self.is_reason_said and bool(found.get("usage")))
        named = {key: value for key, value in self._about.items() if key in found}
        record = {**found, **named, "choices": kept}
        return b"data: " + _encode(openai_in_all(record, self._spent)) + b"\n\n"

    def _choice(self, choice: Record) -> Record | None:
        """A choice without what was said before; None: it says nothing new."""
        said = {key: value for key, value in (choice.get("delta") or {}).items() if key != "role"}
        text, reason = choice.get("text"), choice.get("finish_reason")
        if self._is_over:
            said.pop("content", None)
            text = ""
        is_new = any(said.values()) or bool(text)
        if not is_new and (not reason or self.is_reason_said):
            return None
        self.is_reason_said = self.is_reason_said or bool(reason)
        return {**choice, "delta": said if is_new else {}} if "delta" in choice else {**choice, "text": text}

    @property
    def _is_over(self) -> bool:
        """Whether no more text may come, though the last record did not."""
        return self._is_full or self.is_reason_said

    def _ollama_spliced(self, found: Record, text: str) -> bytes:
        if self._is_over:
            text = ""
        self._keep(text)
        is_last = bool(found.get("done"))
        if not text and not is_last:
            return b""
        out = {**found, **({"model": self._about["model"]} if "model" in self._about else {})}
        message = out.pop("message", None) or {}
        if self._asked.path == GENERATE:
            out["response"] = text
        else:
            out["message"] = {**message, "content": text}
        return _encode(ollama_in_all(out, self._spent)) + b"\n"
