"""The tools of all agents by their names: what each does, and which arguments tell it.

Agents name one tool in several ways (`Read`, `read_file`, `view`); a name is looked up in small
letters and without `_`, `-` and `.`. The name of an MCP server's tool has the server's name, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from sessiontree.core.activity import PATH_KEYS
from sessiontree.core.message import ToolCall
from sessiontree.edits.tools import is_shell

ActKind = Literal[
    "shell",
    "read",
    "edit",
    "search",
    "web",
    "subagent",
    "todos",
    "question",
    "skill",
    "memory",
    "server",
    "other",
]
"""What an act is; `server` is a tool of an MCP server."""

SIGNS: Final[Mapping[ActKind, str]] = {
    "shell": "$",
    "read": "·",
    "edit": "±",
    "search": "/",
    "web": "↗",
    "subagent": "↳",
    "todos": "☑",
    "question": "?",
    "skill": "»",
    "memory": "»",
    "server": "»",
    "other": "»",
}
"""The sign of each kind of act, for a terminal."""


class ToolRule(NamedTuple):
    """How the calls of a tool are read."""

    kind: ActKind
    verb: str
    keys: tuple[str, ...] = ()
    """The arguments of which the first that is there is the object; of none, any telling one."""


_PATHS: Final = (
    *(*PATH_KEYS, "dir_path", "target_file", "image_path", "directory", "uri", "paths"),
    *("file_paths", "include"),
)
_PATTERNS: Final = ("pattern", "query", "regex", "glob", "symbol", "operation", "name", "q")
_TASKS: Final = ("description", "task", "objective", "message", "name", "prompt", "items")
TELLING: Final = (
    *PATH_KEYS,
    *("command", "cmd", "pattern", "query", "url", "description", "skill", "prompt", "subject"),
    *("title", "name", "text", "message", "code", "id"),
)
SESSIONS: Final = ("session_id", "shellId", "bash_id", "shell_id", "task_id", "id")


def _rules(kind: ActKind, verb: str, names: str, *keys: str) -> dict[str, ToolRule]:
    return dict.fromkeys(names.split(), ToolRule(kind, verb, keys))


RULES: Final[Mapping[str, ToolRule]] = {
    **_rules(
        *("shell", "Ran"),
        "bash shell shellcommand localshell execcommand containerexec runshellcommand execute "
        "executebash executecommand runterminalcmd terminal powershell exec localshellcall "
        "runcommand runcommands",
    ),
    **_rules("shell", "Looked at", "bashoutput taskoutput readbash readshell", *SESSIONS),
    **_rules("shell", "Stopped", "killshell killbash taskstop stopbash stopshell", *SESSIONS),
    **_rules("shell", "Typed", "writestdin writebash writeshell", "chars", "input"),
    **_rules(
        *("read", "Read"),
        "read readfile readfiles view notebookread openfile viewfile readmanyfiles cat "
        "readmcpresource accessmcpresource",
        *_PATHS,
    ),
    **_rules("read", "Listed", "ls listdir listdirectory listfiles list", *_PATHS),
    **_rules("read", "Viewed", "viewimage readmediafile showfile", *_PATHS),
    **_rules(
        *("edit", "Edited"),
        "edit multiedit applypatch patch replace strreplace strreplacefile strreplaceeditor "
        "strreplacebasededittool texteditor notebookedit replaceinfile insert searchreplace",
        *_PATHS,
    ),
    **_rules("edit", "Wrote", "write writefile writetofile create createfile", *_PATHS),
    **_rules("edit", "Deleted", "delete deletefile remove removefile", *_PATHS),
    **_rules(
        *("search", "Searched"),
        "grep ripgrep rg search searchfiles searchtext grepfiles grepsearch searchfilecontent lsp "
        "toolsearch codebasesearch codesearch listcodedefinitionnames",
        *_PATTERNS,
    ),
    **_rules("search", "Found", "glob find findfiles filesearch globsearch", *_PATTERNS),
    **_rules("web", "Searched", "websearch googlewebsearch searchweb", "query", "q", "queries"),
    **_rules("web", "Fetched", "webfetch fetch fetchurl urlfetch", "url", "urls", "prompt"),
    **_rules(
        *("subagent", "Agent"),
        "task agent spawnagent newtask delegatetoagent sessionsspawn codebaseinvestigator "
        "generalist clihelp subagent",
        *_TASKS,
    ),
    **_rules("subagent", "Told", "sendinput sendmessage", "message", "input", "text", "id"),
    **_rules("subagent", "Waited for", "wait waitagent", "ids", "targets", "id", "agent_id"),
    **_rules("subagent", "Resumed", "resumeagent", "id", "agent_id"),
    **_rules("subagent", "Closed", "closeagent", "id", "agent_id", "target"),
    **_rules("subagent", "Looked at", "readagent agentoutput", "agent_id", "id", "name"),
    **_rules(
        *("todos", "Todos"),
        "todowrite todoread writetodos updateplan updatetodo settodolist todos todolist tasklist",
    ),
    **_rules("todos", "Todos", "taskcreate", "subject", "description"),
    **_rules("todos", "Todos", "taskupdate taskget", "subject", "taskId", "task_id"),
    **_rules(
        *("question", "Proposed a plan"),
        "exitplanmode exitspecmode planexit presentplan",
        *("plan", "summary", "title"),
    ),
    **_rules("skill", "Skill", "skill slashcommand activateskill", "skill", "command", "name"),
    **_rules(
        *("memory", "Noted"),
        "savememory storememory memory remember",
        *("fact", "text", "content", "memory", "key"),
    ),
    **_rules("memory", "Recalled", "getmemory recall", "key", "query", "path"),
    **_rules("other", "Thought", "think", "thought", "thinking", "reasoning"),
}
"""The tools of all agents, by their names in small letters and without `_`, `-` and `.`."""

_OF_NAMES: Final = str.maketrans("", "", "_-. ")


def rule_of(call: ToolCall) -> ToolRule | None:
    if is_shell(call):
        return RULES["bash"]
    name = call.name[:60].removeprefix("developer__")  # as Goose names its own tools
    return RULES.get(name.translate(_OF_NAMES).lower())


_SERVER: Final = re.compile(
    r"mcp__(.{1,80}?)__(.+)|mcp_([^_].{0,80}?)_(.+)|([^_].{0,80}?)___?(.+)", re.DOTALL
)


class ServerTool(NamedTuple):
    server: str
    tool: str


def server_tool(name: str) -> ServerTool | None:
    """The server and the tool of a name that has both; each agent joins them in its way."""
    found = (
        _SERVER.fullmatch(name) if "_" in name and ("__" in name or name[:4] == "mcp_") else None
    )
    if found is None:
        return None
    server, tool = filter(None, found.groups())
    return ServerTool(server, tool)
