"""A reply of any form, for tests of what happens around its parsing."""

from __future__ import annotations

from typing import Any, ClassVar


class FreeText:
    """Any text, unchanged."""

    name: ClassVar[str] = "text"
    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str | None] = None

    def parse(self, text: str) -> str:
        return text
