"""Collects events."""

from __future__ import annotations

from .dp_event import ComposedDpEvent, DpEvent, NoOpDpEvent, SelfComposedDpEvent


class DpEventBuilder:
    """Collects events; neighbouring ones that are the same are counted."""

    def __init__(self) -> None:
        self._counted: list[tuple[DpEvent, int]] = []

    def compose(self, event: DpEvent, count: int = 1) -> None:
        """Add an event ``count`` times."""
        if not isinstance(event, DpEvent):
            raise TypeError(f"{event!r} is no DpEvent")
        if isinstance(event, SelfComposedDpEvent):
            return self.compose(event.event, count * event.count)
        if isinstance(event, NoOpDpEvent):
            return None
        if self._counted and self._counted[-1][0] == event:
            count += self._counted.pop()[1]
        self._counted.append((event, count))
        return None

    def build(self) -> DpEvent:
        """All events together."""
        events = [event if count == 1 else SelfComposedDpEvent(event, count) for event, count in self._counted]
        if not events:
            return NoOpDpEvent()
        return events[0] if len(events) == 1 else ComposedDpEvent(events)
