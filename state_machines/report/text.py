"""A history as text: a timeline of at most 80 columns, one lane for each attempt plus RL, Gym and the snapshot.

Time runs to the right, one column for each event; a history that is wider than the page goes on in another band. Every
state has a glyph of its own, so that nothing is said by colour alone.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen
from rich.console import Console
from rich.text import Text

from protocol.policy import spell
from state_machines.replay import Replay
from state_machines.report.changes import names
from state_machines.report.listing import why
from state_machines.report.onward import extended, onward
from state_machines.report.view import MARKS, Cell, Lane, Mark, View, unacked, view

# mark: (its first glyph, the glyph that goes on, style)
GLYPHS: Final[dict[Mark, tuple[str, str, str]]] = {
    Mark.RUNNING: ("─", "─", "cyan"),
    Mark.UNACKED: ("●", "●", "bold red"),
    Mark.ACKED: ("✓", "·", "green"),
    Mark.PARKED: ("═", "═", "yellow"),
    Mark.BARE: ("≠", "≠", "bold yellow"),
    Mark.WAITING: ("…", "…", "dim"),
    Mark.CLOSED: ("░", "░", "dim"),
    Mark.BUSY: ("┄", "┄", "dim"),
}
ASCII: Final = str.maketrans("─●✓·═≠…░┄✗→◄▲", "-#v.=!_:~x><^")
LOST_STYLE: Final = "bold magenta"
FINE: Final = "Nothing is broken: from here the pair can still make Gym ready."
LANE_GAP: Final = 2
STRETCH: Final = 9  # a column is not made wider than this


@frozen
class Column:
    """One event: its position in the history and its width."""

    index: int
    width: int


def timeline(replay: Replay, *, width: int = 80, colour: bool = False, further: bool = False) -> str:
    """Return the picture of a history as text, with the verdict's sentence and who is left un-ACKed below it.

    No line is longer than `width`, down to 40 columns. With `colour` it holds ANSI escapes; with `further` it goes on
    with what happens next when everything goes well.
    """
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(width, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        legacy_windows=False,
    )
    console.print(picture(replay, width=width, further=further), end="", soft_wrap=True)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def picture(replay: Replay, *, width: int = 80, further: bool = False) -> Text:
    """Return the same picture for a rich console."""
    width = max(width, 40)
    out = _title(replay, width)
    out.append_text(lanes(view(replay), width))
    out.append("\n")
    out.append_text(_ending(replay, width))
    used = view(replay)
    if further:
        longer, own, end = extended(replay)
        used = view(longer, own)
        out.append_text(wrapped("\nThen, if everything goes well from there:", width, ""))
        out.append_text(lanes(used, width, own))
        out.append("\n")
        out.append_text(wrapped(f"{end}.", width, "bold"))
        for sentence in why(longer.states[-1]):
            out.append_text(wrapped(sentence, width, ""))
    out.append_text(legend([used], width))
    return out


def plain(text: str) -> str:
    """Return a picture in ASCII, for a terminal or a file that can write nothing else. Every glyph stays distinct."""
    return text.translate(ASCII)


def show(console: Console, text: Text) -> None:
    """Print a picture, in ASCII where the output can write nothing else."""
    if not console.encoding.lower().startswith("utf"):
        text = Text(plain(text.plain).encode("ascii", "replace").decode())
    text.rstrip()
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def lanes(seen: View, width: int, start: int = 0, labels: Sequence[str] | None = None) -> Text:
    """Return the lanes alone, from the event at `start` on. `labels` name the columns, by default 1, 2, 3…"""
    labels = labels or [str(i + 1) for i in range(len(seen.replay.events))]
    out = Text()
    for band in bands(seen, width, start, labels):
        out.append("\n")
        for line in _band(seen, band, width, start, labels):
            out.append_text(line)
            out.append("\n")
    return out


def _title(replay: Replay, width: int) -> Text:
    count = len(replay.events)
    word = "no event" if not count else "1 event" if count == 1 else f"{count} events"
    head = "no finding" if replay.verdict is None else str(replay.verdict)
    after = "" if replay.at in (None, count) else f", broken after {replay.at}"
    return wrapped(f"{head}  ({spell(replay.policy)}, {word}{after})", width, "bold")


def bands(seen: View, width: int, start: int, labels: Sequence[str]) -> list[list[Column]]:
    """Return the columns of each band: as many events as fit, each as wide as its widest word and one glyph."""
    room = width - _margin(seen)
    out: list[list[Column]] = [[]]
    used = 0
    for i in range(start, len(seen.replay.events)):
        words = max(len(lane.cells[i].word) for lane in seen.lanes)
        wide = min(max(words, len(labels[i])) + 2, room)
        if used + wide > room and out[-1]:
            out.append([])
            used = 0
        out[-1].append(Column(i, wide))
        used += wide
    notes = max((len(lane.note) for lane in seen.lanes if lane.note), default=-3) + 3
    if used > room - notes and len(out[-1]) > 1:
        out.append([out[-1].pop()])
    return [_stretched(band, room - (notes if band is out[-1] else 0)) for band in out if band]


def _stretched(band: list[Column], room: int) -> list[Column]:
    spare = room - sum(column.width for column in band)
    widths = [column.width for column in band]
    while spare > 0 and min(widths) < STRETCH:
        widths[widths.index(min(widths))] += 1
        spare -= 1
    return [Column(column.index, wide) for column, wide in zip(band, widths, strict=True)]


def _margin(seen: View) -> int:
    return max(len(lane.name) for lane in seen.lanes) + LANE_GAP


def _band(seen: View, band: list[Column], width: int, start: int, labels: Sequence[str]) -> Iterator[Text]:
    margin = _margin(seen)
    numbers = "".join(labels[column.index].ljust(column.width) for column in band)
    yield Text((" " * margin + numbers).rstrip(), style="dim")
    last = band[-1].index == len(seen.replay.events) - 1
    rollout = None
    for lane in seen.lanes:
        cells = [lane.cells[column.index] for column in band]
        note = lane.note if last else ""
        if _silent(lane, cells, note, first=band[0].index == start):
            continue
        name = lane.name
        if lane.attempt is not None:
            if lane.attempt.rollout == rollout:
                name = f"/{lane.attempt.index}".rjust(len(name))
            rollout = lane.attempt.rollout
        line = Text()
        line.append(name.ljust(margin), style="bold" if lane.attempt is None else "")
        before = None
        for column, cell in zip(band, cells, strict=True):
            line.append_text(_cell(cell, column.width, before))
            before = cell.mark
        if note and line.cell_len + len(note) + 3 <= width:
            line.append(f" ◄ {note}", style="bold red")
        line.rstrip()
        yield line


def _silent(lane: Lane, cells: list[Cell], note: str, *, first: bool) -> bool:
    """Whether a band can do without this lane: nothing is said there, or a result that was released stays so."""
    if any(cell.word for cell in cells) or note:
        return False
    if lane.attempt is None:
        return not first and all(cell.mark is None for cell in cells)
    return all(cell.mark is None or cell.mark is Mark.ACKED for cell in cells)


def _cell(cell: Cell, width: int, before: Mark | None) -> Text:
    out = Text()
    word = cell.word[:width]
    if cell.mark is None:
        out.append(word, style=LOST_STYLE if cell.lost else "")
        out.append(" " * (width - len(word)))
        return out
    first, then, style = GLYPHS[cell.mark]
    out.append(word, style=LOST_STYLE if cell.lost else style)
    if word and len(word) < width:
        out.append(" ")
    room = width - len(word) - bool(word)
    if room > 0:
        out.append((then if cell.mark is before and not word else first) + then * (room - 1), style=style)
    return out


def _ending(replay: Replay, width: int) -> Text:
    out = Text()
    if replay.verdict is not None:
        word, sentence = replay.verdict.word.upper(), replay.verdict.sentence
        out.append_text(wrapped(f"{word}: {sentence}.", width, "bold red"))
    else:
        out.append_text(wrapped(FINE, width, "bold green"))
    out.append_text(wrapped(left(replay), width, ""))
    return out


def left(replay: Replay) -> str:
    """Return who is left un-ACKed by a history, now and when everything else has ended well, as a sentence."""
    now = unacked(replay.states[-1])
    sentence = f"Left un-ACKed: {names(now)}."
    if replay.verdict is None or replay.verdict.word != "stranded":
        return sentence
    end = unacked(onward(replay.states[-1], snapshot=False).states[-1])
    if end == now:
        return f"Left un-ACKed for ever: {names(now)}."
    lead = f"{sentence} In" if now else "Left un-ACKed in"
    return f"{lead} the end, even if all else goes well: {names(end)}."


def legend(seen: Sequence[View], width: int) -> Text:
    """Return the glyphs that these pictures use, and no others."""
    cells = [cell for one in seen for lane in one.lanes for cell in lane.cells]
    used = {cell.mark for cell in cells}
    lost = any(cell.lost for cell in cells)
    items = [(GLYPHS[m][0] * 2, MARKS[m], GLYPHS[m][2]) for m in MARKS if m in used and m is not Mark.BUSY]
    if lost:
        items.append(("✗", "failed or lost", LOST_STYLE))
    if any(cell.word.endswith("→RL") for cell in cells):
        items.append(("→RL", "its answer reaches RL", ""))
    out, used_width = Text(), 0
    for glyph, text, style in items:
        item = f"{glyph} {text}"
        gap = "   " if used_width else ""
        if used_width + len(gap) + len(item) > width:
            out.append("\n")
            used_width, gap = 0, ""
        out.append(gap)
        out.append(glyph, style=style)
        out.append(f" {text}", style="dim")
        used_width += len(gap) + len(item)
    if items:
        out.append("\n")
    return out


def wrapped(sentence: str, width: int, style: str, indent: int = 0) -> Text:
    """Return a sentence in lines of at most `width`, and a line's end. Later lines are indented twice as far."""
    out, line = Text(), " " * indent
    for word in sentence.split(" "):
        if line.strip() and len(line) + 1 + len(word) > width:
            out.append(line + "\n", style=style)
            line = " " * (2 * indent) + word
        else:
            line = f"{line} {word}" if line.strip() else line + word
    out.append(line + "\n", style=style)
    return out
