"""What many sessions add up to, printed."""

from __future__ import annotations

from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.places import Selection, sessions_in
from sessiontree.catalog.totals import Totals, totals_of
from sessiontree.cli.lookup import counted_sessions, none_found, places_at
from sessiontree.cli.output import out_facts, out_json, usage_in_words
from sessiontree.cli.terminal import Progress, counted, tell, tell_each


def out_totals(folder: str | None, selection: Selection, *, as_json: bool) -> None:
    """Print the sums of the sessions in a folder, or of all sessions that are found."""
    problems: list[str] = []
    places = places_at(folder)
    found: list[SessionInfo] = []
    with Progress("Reading sessions") as shown:
        for one in sessions_in(places, selection, problems.append):
            found.append(one)
            shown(len(found), None)
        total, agents = totals_of(counted_sessions(found, None, shown))
    if as_json:
        each = {name: sums.as_dict() for name, sums in agents.items()}
        out_json({**total.as_dict(), "agents": each})
    elif found:
        shown_agents = agents if len(agents) > 1 else {}
        sums = {"sessions": f"{total.sessions:,}", "turns": f"{total.turns:,}"}
        size = {"in the files": f"{total.bytes:,} bytes"}
        facts = {name: _in_words(sums) for name, sums in shown_agents.items()}
        out_facts({**sums, **size, **usage_in_words(total.usage), **facts})
    else:
        tell(none_found(places, selection))
    if total.not_counted:
        tell(f"Warning: {counted(total.not_counted, 'session')} not counted: cut, or too large")
    tell_each("Left out", problems)


def _in_words(sums: Totals) -> str:
    cost = f", ${sums.usage.cost:,.4f}" if sums.usage.cost else ""
    tokens = f"{sums.usage.input:,} in, {sums.usage.output:,} out"
    turns = counted(sums.turns, "turn")
    return f"{counted(sums.sessions, 'session')}, {turns}, {sums.bytes:,} bytes, {tokens}{cost}"
