"""Contexts of the sequences that a decoder holds, from the ids that it shows at each step."""
from ._dgap import Bundle, Context


class Sequence:
    """One sequence's Context. Ids that continue what it holds are accepted; any others begin it anew."""

    def __init__(self, bundle: Bundle):
        self.context, self._ids = Context(bundle), None

    def follow(self, ids) -> Context:
        """ids: numpy int32 or int64 [tokens], all of the text up to the row of logits."""
        known = 0 if self._ids is None else len(self._ids)
        if 0 < known <= len(ids) and (ids[:known] == self._ids).all():
            self.context.accept(ids[known:])
        else:
            self.context.begin(ids)
        self._ids = ids.copy()  # decoders may go on in the same memory
        return self.context


class Sequences:
    """Sequences by row, as long as the decoder has them."""

    def __init__(self, bundle: Bundle):
        self._bundle, self._rows = bundle, []

    def follow(self, rows) -> list:
        """The Context of every row's ids."""
        self._rows = self._rows[:len(rows)] + [Sequence(self._bundle) for _ in range(len(rows) - len(self._rows))]
        return [sequence.follow(ids) for sequence, ids in zip(self._rows, rows)]
