"""The one summary of a tool call: what was done, to what, and what came of it, on one line.

An act has the same columns whatever agent made the call: a verb, an object and an outcome. Each
agent has its own names for a tool, so that one table names the tools of all of them; a call that
nobody knows has the tool's name and its first telling argument. What an agent keeps beside a result
(`told`) comes before the text of the result.

Invariants: each text is on one line, without control characters, and of bounded length; no
argument and no result fails, whatever its type; nothing on a line is JSON; an act has failed if
`activity.ending_of` says so. The cost grows with the length of the arguments and the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from sessiontree.core.activity import ending_of, exit_code_of, output_of
from sessiontree.core.display import mask_then_cut, one_line
from sessiontree.core.message import (
    HOSTED_ITEMS,
    ToolCall,
    indented_text,
    json_text,
    kind_of,
)
from sessiontree.core.questions import answers_in, questions_of
from sessiontree.edits.diff import counts_of, diff_of
from sessiontree.edits.shell import script_of
from sessiontree.edits.tools import (
    Edit,
    edits_of,
    output_of_command,
    seen_in,
    with_arguments,
)
from sessiontree.text.amounts import counted, in_short, lasting
from sessiontree.text.preview import size_in_short
from sessiontree.text.terminal import as_shown
from sessiontree.views.outcomes import (
    entries_listed,
    hits_in,
    image_type,
    items_in_json,
    lines_in,
    results_in_words,
    todos_in,
)
from sessiontree.views.tools import (
    RULES,
    SESSIONS,
    TELLING,
    ActKind,
    ServerTool,
    ToolRule,
    rule_of,
    server_tool,
)

FAILED: Final = "✕"
"""The sign of an act that failed."""

MINUS: Final = "−"

_OWN: Final = ("functions", "developer")
"""What programs put before the names of their own tools, as others do with a server's."""

_WIDTH: Final = 300
"""Characters of an object; a surface cuts more."""

_DETAIL: Final = 100
"""Characters of the other texts of an act."""

_MAX_RESULT: Final = 40
"""Characters of a result of one line that is shown as it is."""

_TAIL: Final = 4000
"""Characters at the end of an output, of which the last lines are shown."""


class Act(msgspec.Struct, frozen=True):
    """What a tool call did, on one line."""

    kind: ActKind
    verb: str
    object: str = ""
    """What it was done to, or with: a command, a path, a pattern."""

    place: str = ""
    """What is said of the object in a lower voice, such as `in src` or `:20–88`."""

    outcome: str = ""
    """What came of it; empty without a result, and where there is nothing to say."""

    duration: float | None = None
    """Seconds; None if they are not known."""

    failed: bool = False
    """True if the call failed, or the user did not allow it."""

    output: str = ""
    """The text of the result, without what an agent writes around it."""

    @property
    def what(self) -> str:
        """The verb, the object and its place."""
        gap = "" if self.place.startswith(":") else " "
        return f"{self.verb} {self.object}{gap}{self.place}".strip()

    @property
    def line(self) -> str:
        """The act on one line, such as `Ran pytest -q → 231 passed`."""
        return f"{self.what} → {self.outcome}" if self.outcome else self.what

    @property
    def took(self) -> str:
        """How long it took, such as `4 s`; empty if that is not known, or under a second."""
        return "" if self.duration is None or self.duration < 1 else lasting(self.duration)

    def tail(self, count: int = 3) -> list[str]:
        """The last lines of the output, as a terminal shows them."""
        return last_lines(self.output, count)


def last_lines(text: str, count: int) -> list[str]:
    """The last lines of a text with something in them, as a terminal shows them."""
    end = mask_then_cut(text, max(0, len(text) - _TAIL), len(text))[-_TAIL:]
    return [line.rstrip() for line in as_shown(end).split("\n") if line.strip()][-count:]


def act_of(
    call: ToolCall,
    result: Mapping[str, Any] | None = None,
    *,
    told: Mapping[str, Any] | None = None,
    cwd: str | None = None,
    seconds: float | None = None,
) -> Act:
    """What a call did.

    Args:
        call: the call.
        result: its result, as `activity.results_in` gives it; None if it has none.
        told: what the agent keeps beside the result, as `edits.tools.SideFacts` gives it.
        cwd: the folder that paths are shown relative to.
        seconds: the time from the call to its result.
    """
    read = _Reading(with_arguments(call), result, told or {}, cwd)
    made = read.act()
    if result is None:
        return made
    lasted = _seconds(read) if seconds is None else seconds
    if read.is_done:
        return msgspec.structs.replace(made, output=read.text, duration=lasted)
    outcome = "refused" if read.ending == "refused" else _failure(result)
    return msgspec.structs.replace(
        made, outcome=outcome, duration=lasted, failed=True, output=read.text
    )


def _text_of(result: Mapping[str, Any]) -> str:
    content = result.get("content")
    return indented_text(content) if isinstance(content, Mapping) else output_of(result)


def _failure(result: Mapping[str, Any]) -> str:
    code = exit_code_of(result)
    return f"exit {code}" if code else "failed"


class Detail(NamedTuple):
    """A part of a call that its line does not have."""

    name: str
    """The argument, or the file of a diff; empty where that is plain."""

    text: str
    language: Literal["", "diff", "sh", "json"] = ""


def details_of(call: ToolCall, act: Act | None = None) -> Iterator[Detail]:
    """What a call says beyond its line: a diff for each file, a script, or other arguments.

    What the line has whole is not repeated; `act` is the act of the call, where the caller has it.
    """
    call = with_arguments(call)
    act = act or act_of(call)
    edits = [] if act.kind in _WITHOUT_EDITS else edits_of(call, {})
    edits = [edit for edit in edits if edit.path]
    diffs = [(edit.path, "\n".join(diff_of(edit))) for edit in edits]
    if any(diff for _, diff in diffs):
        yield from (
            Detail(path if len(diffs) > 1 else "", diff, "diff") for path, diff in diffs if diff
        )
        return
    given = call.arguments
    shown = act.what
    if isinstance(given, str) and not _is_in(shown, given):
        yield Detail("", given)
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if value is None or _is_in(shown, value):
            continue
        if key in ("command", "cmd", "script") and (script := script_of(given)):
            if not _is_in(shown, script):
                yield Detail("", script, "sh")
        elif isinstance(value, str):
            yield Detail(str(key), value)
        else:
            yield Detail(str(key), indented_text(value), "json")


_WITHOUT_EDITS: Final = ("read", "search", "web", "subagent", "todos", "question", "skill")


def _is_in(shown: str, value: Any) -> bool:
    """True if a line has a value whole."""
    if isinstance(value, str):
        bare = value.split("://", 1)[-1].rstrip("/")
        return "\n" not in value and len(value) <= _WIDTH and one_line(bare, _WIDTH) in shown
    return not isinstance(value, bool) and (text := _in_words(value)) != "" and text in shown


class _Reading:
    """Reads one call with its result."""

    def __init__(
        self,
        call: ToolCall,
        result: Mapping[str, Any] | None,
        told: Mapping[str, Any],
        cwd: str | None,
    ) -> None:
        self.call = call
        self.arguments: Mapping[str, Any] = (
            call.arguments if isinstance(call.arguments, Mapping) else {}
        )
        self.result, self.told, self.cwd = result, told, cwd
        self._made: list[Edit] | None = None
        self.ending = "" if result is None else ending_of(result)
        self.is_done = self.ending == "done"
        self.text = "" if result is None else output_of_command(_text_of(result))

    def act(self) -> Act:
        """The act, as if the call had ended well."""
        rule, server = rule_of(self.call), server_tool(self.call.name)
        if server is not None and server.server not in _OWN:
            return self._of_server(server)
        if asked := questions_of(self.call):
            return self._question([one.question for one in asked])
        if rule is not None and (read := _READERS.get(rule.kind)) is not None:
            return read(self, rule)
        edit = self._edit(rule) if rule is None or rule.kind == "edit" else None
        return edit or self._other(rule)

    # Each kind of act

    def shell(self, rule: ToolRule) -> Act:
        if rule.verb == "Typed":
            return self._typed()
        if rule.verb != "Ran":
            return Act("shell", rule.verb, self._first(rule.keys), outcome=self._output())
        script = script_of(self.arguments) or self._whole()
        if script.lstrip().startswith("apply_patch") and (patched := self._edit(None)):
            return patched
        command, folder = _command_of(script)
        folder = folder or self._first(("workdir", "cwd", "dir_path", "directory", "working_dir"))
        place = "" if not folder or self._is_here(folder) else f"in {self._path(folder)}"
        return Act("shell", "Ran", one_line(command, _WIDTH), place, self._printed())

    def _typed(self) -> Act:
        session = self._first(SESSIONS)
        chars = self.arguments.get("chars", self.arguments.get("input"))
        if not chars:
            return Act("shell", "Looked at", f"session {session}", outcome=self._output())
        keys = one_line(f"{chars}\0".replace("\x03", "^C").replace("\x04", "^D"), _WIDTH)
        return Act("shell", "Typed", keys, session and f"into session {session}", self._output())

    def _printed(self) -> str:
        """What came of a command."""
        if not self.is_done:
            return ""
        if self.arguments.get("run_in_background") or self.arguments.get("is_background"):
            return "in background"
        if _RUNS_ON.search(output_of(self.result or {})[:400]):
            return "still running"
        if change := self._changed():
            return change
        from sessiontree.views.runners import sum_of  # a tree of entries has no outcomes

        return sum_of(self.text) or self._output()

    def _output(self) -> str:
        if not self.is_done:
            return ""
        return counted(lines_in(self.text), "line") if self.text.strip() else "no output"

    def read(self, rule: ToolRule) -> Act:
        paths = self._named((*rule.keys, "files"))
        listed = [_path_of(each) for each in paths] if _is_list(paths) else [paths]
        name = self._paths(listed)
        if self.result is None or not self.is_done:
            return Act("read", rule.verb, name, _asked_lines(self.arguments))
        if rule.verb == "Listed":
            return Act("read", "Listed", name or ".", outcome=entries_listed(self.text))
        if image := image_type(self.result):
            return Act("read", "Viewed", name, outcome=image)
        shown = self.told.get("file")
        first, count = _lines_shown(shown if isinstance(shown, Mapping) else {})
        if not count:
            seen = [lines for lines in seen_in(self.call, {}, self.text) if lines.text]
            first = seen[0].first if seen else 0
            count = lines_in(seen[0].text if seen else self.text)
        place = f":{first}–{first + count - 1}" if first > 1 else _asked_lines(self.arguments)
        return Act("read", rule.verb, name, place, counted(count, "line") if self.text else "")

    def search(self, rule: ToolRule) -> Act:
        name = self._first(rule.keys)
        at = self._named(("path", "dir_path", "directory", "target_directories", "filePath"))
        folder = next((one for one in _strings_in(at)), "")
        kinds = self._first(("include", "glob", "file_pattern")) if rule.verb == "Searched" else ""
        place = "" if not folder or self._is_here(folder) else f"in {self._path(folder)}"
        place += f" {kinds}" if kinds and kinds != name else ""
        outcome = hits_in(self.text, self.told, finds=rule.verb == "Found") if self.is_done else ""
        return Act("search", rule.verb, name, place.strip(), outcome)

    def web(self, rule: ToolRule) -> Act:
        given = next(iter(_strings_in(self._named(rule.keys))), "")
        if rule.verb == "Searched":
            outcome = results_in_words(self.text) if self.is_done else ""
            return Act("web", "Searched", one_line(f"“{given}”", _WIDTH), outcome=outcome)
        where = _URL.search(given)
        shown = given if where is None else where[0].split("//", 1)[1].rstrip("/")
        return Act("web", "Fetched", one_line(shown, _WIDTH), outcome=self._size())

    def subagent(self, rule: ToolRule) -> Act:
        task = one_line(next(iter(_strings_in(self._named(rule.keys))), ""), _WIDTH)
        if rule.verb != "Agent":
            return Act("subagent", rule.verb, task)
        keys = ("subagent_type", "agent_type", "agent", "agent_name", "role", "type", "mode")
        named = one_line(self._first(keys), 40)
        if not named and self.call.name.lower() not in ("task", "agent", "spawn_agent", "new_task"):
            named = one_line(self.call.name, 40)
        return Act("subagent", named or "Agent", task, outcome=self._work() if self.is_done else "")

    def _work(self) -> str:
        if _LAUNCHED.match(self.text):
            return "in background"
        calls, tokens = (_whole_number(self.told.get(key)) for key in _TOTALS)
        parts = [counted(calls, "call")] if calls else []
        return " · ".join([*parts, *([f"{in_short(tokens)} tokens"] if tokens else [])])

    def todos(self, rule: ToolRule) -> Act:
        items = todos_in(self.arguments) or todos_in({"todos": self.text})
        if not items:
            status = self._first(("status",))
            return Act("todos", "Todos", self._first(rule.keys), outcome=status.replace("_", " "))
        now = next((text for text, state in items if state == "now"), None)
        nexts = next((text for text, state in items if state == "open"), items[-1][0])
        done = sum(state == "done" for _, state in items)
        shown = one_line(nexts if now is None else now, _WIDTH)
        return Act("todos", "Todos", shown, outcome=f"{done:,} of {len(items):,} done")

    def question(self, rule: ToolRule) -> Act:
        plan = self._first(rule.keys) or self._first(TELLING)
        heading = plan.split("↵", 1)[0].lstrip("# ").strip()
        return Act("question", rule.verb, heading, outcome="approved" if self.is_done else "")

    def _question(self, asked: list[str]) -> Act:
        found = answers_in(self.text, questions_of(self.call)) if self.is_done else []
        replies = one_line(", ".join(reply.answer for reply in found), _DETAIL)
        more = f"and {len(asked) - 1:,} more" if len(asked) > 1 else ""
        return Act("question", "Asked", one_line(asked[0], _WIDTH), more, replies)

    def skill(self, rule: ToolRule) -> Act:
        words = len(self.text.split()) if self.is_done else 0
        told = f"{words:,} words" if words >= _TELLS_WORDS else ""
        return Act("skill", rule.verb, self._first(rule.keys), outcome=told)

    def _of_server(self, named: ServerTool) -> Act:
        telling = self._telling()
        tool = one_line(f"{named.tool} {telling}", _WIDTH)
        outcome = self._changed() or self._came()
        return Act("server", one_line(named.server, 40) or "server", tool, outcome=outcome)

    def _other(self, rule: ToolRule | None) -> Act:
        if rule is not None:
            return Act(rule.kind, rule.verb, self._first(rule.keys) or self._telling())
        name = one_line(self.call.name, 60) or "a tool"
        return Act("other", "Called", f"{name} {self._telling()}".strip(), outcome=self._came())

    def _edit(self, rule: ToolRule | None) -> Act | None:
        """An act that changed files; None for any other."""
        edits = [edit for edit in self._edits() if edit.path]
        if not edits:
            is_look = rule is not None and self.arguments.get("command") == "view"
            return self.read(RULES["read"]) if is_look else None
        paths = list(dict.fromkeys(edit.path for edit in edits))
        kinds = {edit.kind for edit in edits}
        verb = _CHANGES.get(next(iter(kinds)), "Edited") if len(kinds) == 1 else "Edited"
        to = f"to {self._path(edits[0].to)}" if kinds == {"move"} and len(edits) == 1 else ""
        return Act("edit", verb, self._paths(paths), to, self._changed())

    # What is said of arguments and results

    def _edits(self) -> list[Edit]:
        if self._made is None:
            self._made = edits_of(self.call, self.told if self.is_done else {})
        return self._made

    def _changed(self) -> str:
        """The lines that a call which was done added and took away."""
        if not self.is_done:
            return ""
        every = [counts_of(edit) for edit in self._edits()]
        added, removed = sum(each.added for each in every), sum(each.removed for each in every)
        return f"+{added:,} {MINUS}{removed:,}" if added or removed else ""

    def _came(self) -> str:
        """What came of a call of which no more is known."""
        if not self.is_done:
            return ""
        if self.text[:1] in "[{" and (items := items_in_json(self.text)) is not None:
            return items
        text = self.text.strip()
        is_short = len(text) <= _MAX_RESULT and "\n" not in text and text[:1] not in ("{", "[", "<")
        return (one_line(text) if is_short else self._size()) or "ok"

    def _size(self) -> str:
        """The size of the result."""
        if not self.is_done or not self.text:
            return ""
        return size_in_short(len(self.text.encode("utf-8", "replace")))

    def _named(self, keys: Sequence[str]) -> Any:
        return next((v for key in keys if (v := self.arguments.get(key)) not in (None, "", [])), "")

    def _first(self, keys: Sequence[str]) -> str:
        """The first argument of some that is there, on one line."""
        return _in_words(self._named(keys))

    def _telling(self) -> str:
        """The argument that tells most of what a call is about."""
        if found := _in_words(self._named(TELLING)):
            return found
        scalars = (v for v in self.arguments.values() if isinstance(v, str | int | float))
        return _in_words(next((v for v in scalars if v != "" and v is not True), "")) or (
            "" if self.arguments else self._whole()
        )

    def _whole(self) -> str:
        """Arguments that are text, or a list of words."""
        given = self.call.arguments
        if isinstance(given, str):
            return "" if given[:1] in ("{", "[") else one_line(given, _WIDTH)
        return _in_words(given) if isinstance(given, list) else ""

    def _is_here(self, folder: str) -> bool:
        return folder in (".", "./") or folder.rstrip("/") == (self.cwd or "").rstrip("/")

    def _path(self, path: str) -> str:
        return shown_path(path, self.cwd)

    def _paths(self, paths: Sequence[Any]) -> str:
        names = [self._path(path) for path in paths[:20] if isinstance(path, str) and path]
        if len(names) < 2:
            return "".join(names)
        return one_line(f"{len(paths):,} files {', '.join(names)}", _WIDTH)


_READERS: Final[Mapping[ActKind, Callable[[_Reading, ToolRule], Act]]] = {
    "shell": _Reading.shell,
    "read": _Reading.read,
    "search": _Reading.search,
    "web": _Reading.web,
    "subagent": _Reading.subagent,
    "todos": _Reading.todos,
    "question": _Reading.question,
    "skill": _Reading.skill,
}
_CHANGES: Final = {"write": "Wrote", "delete": "Deleted", "move": "Moved"}
_TOTALS: Final = ("totalToolUseCount", "totalTokens")
_TELLS_WORDS: Final = 20
_LAUNCHED: Final = re.compile(r"(?:Background|Async) agent launched|Fork started")
_RUNS_ON: Final = re.compile(r"Process running with session ID|running in (?:the )?background")
_URL: Final = re.compile(r"https?://[^\s\"'<>]+")


_CD: Final = re.compile(
    r"""\s*cd[ \t]+(?:'([^'\n]+)'|"([^"\n$`]+)"|([^\s;&|'"$`]+))[ \t]*(?:&&|;|\n)\s*"""
)


def _command_of(script: str) -> tuple[str, str]:
    """What a script does, and the folder that it first goes to; the script alone without one."""
    found = _CD.match(script)
    if found is None or not script[found.end() :].strip():
        return script, ""
    return script[found.end() :], next(filter(None, found.groups()))


_HOME: Final = re.compile(r"(?:/(?:home|Users)/[^/]+|/root|[A-Za-z]:\\Users\\[^\\]+)(?=[/\\]|$)")


def shown_path(path: str, cwd: str | None) -> str:
    """A path on one line: relative to the folder `cwd`, or else to the home that `cwd` is in."""
    above = (cwd or "").rstrip("/\\")
    if above and path.startswith(above):
        if path == above:
            return "."
        if path[len(above)] in "/\\":
            return one_line(path[len(above) + 1 :], _WIDTH)
    home = _HOME.match(above)
    if home is not None and path.startswith(home[0]) and path[len(home[0]) :][:1] in ("/", "\\"):
        path = f"~{path[len(home[0]) :]}"
    return one_line(path, _WIDTH)


def _path_of(named: Any) -> Any:
    """A path, or the path of an object that has one."""
    return named.get("path") if isinstance(named, Mapping) else named


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _strings_in(value: Any) -> Iterator[str]:
    """The texts of an argument: of a text itself, of a list its items."""
    for one in value if _is_list(value) else (value,):
        if isinstance(one, str) and one:
            yield one


def _in_words(value: Any) -> str:
    """An argument on one line; a list as its items, anything else that is not a scalar as JSON."""
    if isinstance(value, str):
        return one_line(value, _WIDTH)
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return one_line(json_text(value), 40)
    if _is_list(value) and all(isinstance(one, str) for one in value[:50]):
        return one_line(" ".join(value[:50]), _WIDTH)
    return ""


def _whole_number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _lines_shown(file: Mapping[str, Any]) -> tuple[int, int]:
    """The first line of a file that was shown, and how many lines, as the agent keeps them."""
    return _whole_number(file.get("startLine")), _whole_number(file.get("numLines"))


def _asked_lines(arguments: Mapping[str, Any]) -> str:
    """The lines that a call asks for, where it names both ends."""
    ends = arguments.get("view_range") or arguments.get("ranges")
    if isinstance(ends, list) and ends and isinstance(ends[0], list):
        ends = ends[0]
    if not isinstance(ends, list) or len(ends) != 2:
        ends = [arguments.get("start_line"), arguments.get("end_line")]
    first, last = map(_whole_number, ends)
    if not (first and last):
        first = _whole_number(arguments.get("offset"))
        last = first + _whole_number(arguments.get("limit")) - 1
    return f":{first}–{last}" if 0 < first <= last else ""


_WALL: Final = re.compile(r"^Wall time: ([\d.]{1,12}) seconds?$", re.MULTILINE)


def _seconds(read: _Reading) -> float | None:
    """How long a call took, as the agent tells it."""
    for key in ("totalDurationMs", "durationMs", "duration_ms"):
        if milliseconds := _whole_number(read.told.get(key)):
            return milliseconds / 1000
    wall = None if read.result is None else _WALL.search(output_of(read.result)[:400])
    try:
        return None if wall is None else float(wall[1])
    except ValueError:
        return None


def act_of_item(item: Mapping[str, Any], cwd: str | None = None) -> Act | None:
    """What a tool did that runs at the provider: a call with its result; None for other items."""
    kind = kind_of(item)
    if kind not in HOSTED_ITEMS or not kind.endswith("_call"):
        return None
    action = item.get("action")
    arguments = action if isinstance(action, Mapping) else item.get("arguments", dict(item))
    name = f"{kind.removesuffix('_call')}"
    if kind == "mcp_call":
        name = f"mcp__{item.get('server_label') or 'server'}__{item.get('name') or 'tool'}"
    if kind == "web_search_call" and isinstance(action, Mapping) and "url" in action:
        name = "web_fetch"
    output = item.get("output")
    call = ToolCall("", name, arguments, kind)
    if not isinstance(output, str):
        return act_of(call, cwd=cwd)
    failed = bool(item.get("error"))
    return act_of(call, {"content": output, "isError": failed}, cwd=cwd)
