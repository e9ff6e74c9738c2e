"""What a backbone holds in memory while it works: what ``Backbone.memory`` answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """What a backbone holds. Widths are float32 numbers for each node, ``_entries`` bytes for each entry of the graph.

    Attributes:
        form: what it multiplies by: ``normalised``, ``adjacency``, ``attention``, ``attention in torch``,
            ``edge_index``, or nothing.
        stem: what the part without edges keeps for the backward pass, its result included; once for all views.
        out: the width of the stem's result: its gradient is collected over the views.
        stem_kept: what autograd itself keeps of the stem, where nobody else holds its result.
        width: of most arrays.
        kept, kept_entries: what autograd keeps of one view.
        busy, busy_entries: what the backward pass needs beside, for the view it is at.
        looking, looking_entries: what a forward pass without gradient has at a time.
        lost, lost_by_erm: what the C library's heap loses while a step of EERM or ERM runs, as a share of the step's
            arrays. The only numbers here that no code tells: they were chosen by hand from measured peaks, less the
            arrays that are added up here.
    """

    form: str
    stem: float
    out: float
    kept: float
    busy: float
    looking: float
    stem_kept: float = 0
    width: float = 0
    kept_entries: float = 0
    busy_entries: float = 0
    looking_entries: float = 0
    lost: float = 1.1
    lost_by_erm: float = 2.1
