"""The items of a Responses stream, and which of them an event speaks of.

An item is found where `output_index` and `item_id` agree, else where its id was opened, else by the index alone:
servers share an index among items, share an id among items, and change ids between the events of one item. An item
that comes where another is gets a place of its own behind the last, and its index then means the newest. No message
holds what is of a reasoning or a call, whatever the index says.
"""

from typing import Any

from pipeline.dialects.base import Json, as_index, as_text
from pipeline.dialects.items import Item


class Output:
    """Items by place; a place is the item's index, unless another item had it."""

    def __init__(self) -> None:
        self.items: dict[int, Item] = {}
        self._ids: dict[str, int] = {}
        self._newest: dict[int | None, int] = {}
        self._last = -1

    def whole(self) -> list[Json]:
        """Return the items as they are, in order."""
        return [self.items[place].whole() for place in sorted(self.items)]

    def of(self, data: Json, kind: str) -> Item:
        """Return the item that an event speaks of; where none is, one of this type that is only guessed."""
        index, item_id = data.get("output_index"), data.get("item_id")
        item = self.items.get(index) if item_id and index.__class__ is int else None
        if item is not None and item.id == item_id:  # The usual event, on a shorter road than `_find`.
            return item
        item_id = as_text(item_id)
        place = self._find(data, item_id)
        if place is None:
            place = self._last + 1 if item_id else max(self._last, 0)
        item = self.items.get(place)
        if item is not None and item.id != item_id and not item.may_hold(kind):
            place = max((at for at in self.items if self._is_open(at, kind)), default=self._last + 1)
            item = self.items.get(place)
        if item is None:
            item = self._put(place, item_id, {"type": kind, **({"id": item_id} if item_id else {})})
            item.guessed = True
        return item

    def take(self, data: Json, fields: Json, *, done: bool) -> bool:
        """Take in an item that opens or closes; return whether its index was another item's."""
        item_id = as_text(fields.get("id"))
        index, place = as_index(data.get("output_index")), self._find(data, item_id)
        old = None if place is None else self.items.get(place)
        repeated = False
        if old is not None and index is not None and index not in self.items and (old.done or not done):
            place, old = index, None
        elif place is None and done and self._is_open(self._last, fields.get("type")):
            place = self._last
        elif place is None or (old is not None and not old.may_be(item_id, fields, done=done)):
            repeated = old is not None
            place, old = self._last + 1, None
        if old is not None and not done:
            old.fill(fields)
        else:
            self._put(place, item_id, fields).done = done
            self._newest[place if index is None else index] = place
        return repeated

    def seed(self, output: list[Any]) -> None:
        """Take in the items of a response that is still going on, as after a stream was resumed."""
        for index, fields in enumerate(output):
            if isinstance(fields, dict) and index not in self.items:
                item_id = as_text(fields.get("id"))
                if item_id is None or item_id not in self._ids:
                    self._put(index, item_id, fields)

    def _is_open(self, place: int, kind: Any) -> bool:  # noqa: ANN401 - whatever the provider put there
        """Whether an item of this type is open there: an event that does not say which item it is of may mean it."""
        item = self.items.get(place)
        return item is not None and not item.done and item.fields.get("type") == kind

    def _put(self, place: int, item_id: str | None, fields: Json) -> Item:
        item = self.items[place] = Item(fields, item_id)
        self._last = max(self._last, place)
        if item_id:
            self._ids.setdefault(item_id, place)
        return item

    def _find(self, data: Json, item_id: str | None) -> int | None:
        index = as_index(data.get("output_index"))
        if item_id and index in self.items and self.items[index].id == item_id:
            return index
        known = self._ids.get(item_id) if item_id else None
        return known if known is not None else self._newest.get(index, index)
