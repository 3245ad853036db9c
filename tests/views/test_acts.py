"""The one line of each call: every agent's tools, tools that nobody knows, and hostile texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from time import process_time
from typing import Any, Final

import pytest

from sessiontree.core.display import masking
from sessiontree.core.message import ToolCall
from sessiontree.views.acts import Act, act_of, act_of_item

CWD: Final = "/home/me/app"


def text(said: str, *, failed: bool = False) -> dict[str, Any]:
    """A result as Claude Code, pi and Gemini CLI are read."""
    return {"role": "toolResult", "content": [{"type": "text", "text": said}], "isError": failed}


def output(said: str) -> dict[str, Any]:
    """A result as Codex writes it."""
    return {"type": "function_call_output", "call_id": "c", "output": said}


def line_of(
    name: str,
    arguments: Any = None,
    result: Mapping[str, Any] | None = None,
    told: Mapping[str, Any] | None = None,
) -> str:
    act = act_of(ToolCall("c", name, arguments, "tool_use"), result, told=told, cwd=CWD)
    failed = "✕ " if act.failed else ""
    return f"{failed}{act.line}{f' ({act.took})' if act.took else ''}"


_PLAN: Final = [
    {"step": "Read", "status": "completed"},
    {"step": "Write", "status": "in_progress"},
    {"step": "Test", "status": "pending"},
]
_PATCH: Final = (
    "*** Begin Patch\n*** Update File: src/a.py\n@@\n-one\n+two\n+three\n"
    "*** Add File: b.py\n+new\n*** End Patch\n"
)
_TODOS: Final = [
    {"content": "Reproduce", "status": "completed", "activeForm": "Reproducing"},
    {"content": "Mend", "status": "completed"},
    {"content": "Take it out", "status": "in_progress"},
    {"content": "Run all", "status": "pending"},
]
_ASKED: Final = {"questions": [{"question": "Which one?", "header": "One", "options": []}]}
_SUM: Final = "....\n1 failed, 22 passed in 3.41s\n"

CLAUDE: Final = {
    "Bash": [
        ({"command": "pytest -q"}, text("..\n231 passed in 19.2s\n"), "Ran pytest -q → 231 passed"),
        ({"command": f"cd {CWD} && ls"}, text("a\nb"), "Ran ls → 2 lines"),
        ({"command": "cd /tmp/x; ls"}, text("a"), "Ran ls in /tmp/x → 1 line"),
        ({"command": "true"}, text(""), "Ran true → no output"),
        (
            {"command": "pytest"},
            text("Exit code 1\n" + _SUM, failed=True),
            "✕ Ran pytest → exit 1",
        ),
        (
            {"command": "rm -rf /"},
            text("The user doesn't want to proceed with this tool use."),
            "✕ Ran rm -rf / → refused",
        ),
        (
            {"command": "npm start", "run_in_background": True},
            text("Command running in background with ID: b1"),
            "Ran npm start → in background",
        ),
        ({"command": "sleep 9"}, None, "Ran sleep 9"),
    ],
    "PowerShell": [({"command": "Get-Item ."}, text("x"), "Ran Get-Item . → 1 line")],
    "BashOutput": [({"bash_id": "b1"}, text("x\ny"), "Looked at b1 → 2 lines")],
    "TaskOutput": [({"task_id": "b1"}, text("x"), "Looked at b1 → 1 line")],
    "KillShell": [({"shell_id": "b1"}, text("killed"), "Stopped b1 → 1 line")],
    "TaskStop": [({"task_id": "b1"}, text("x"), "Stopped b1 → 1 line")],
    "Read": [
        (
            {"file_path": f"{CWD}/src/a.py"},
            text("     1→one\n     2→two"),
            "Read src/a.py → 2 lines",
        ),
        (
            {"file_path": f"{CWD}/src/a.py", "offset": 20, "limit": 2},
            text("    20→one\n    21→two"),
            "Read src/a.py:20–21 → 2 lines",
        ),
        ({"file_path": "/home/me/.bashrc"}, text("     1→x"), "Read ~/.bashrc → 1 line"),
        (
            {"file_path": "/etc/hosts"},
            text("no such file", failed=True),
            "✕ Read /etc/hosts → failed",
        ),
    ],
    "NotebookRead": [({"notebook_path": "n.ipynb"}, text("x"), "Read n.ipynb → 1 line")],
    "LS": [
        (
            {"path": f"{CWD}/src"},
            text(f"- {CWD}/src/\n  - a.py\n  - b.py\n"),
            "Listed src → 2 entries",
        )
    ],
    "ReadMcpResource": [({"server": "s", "uri": "db://t"}, text("x"), "Read db://t → 1 line")],
    "Edit": [
        (
            {"file_path": f"{CWD}/a.py", "old_string": "one", "new_string": "two\nthree"},
            text("ok"),
            "Edited a.py → +2 −1",
        ),
        (
            {"file_path": f"{CWD}/a.py", "old_string": "one", "new_string": "two"},
            text("String to replace not found", failed=True),
            "✕ Edited a.py → failed",
        ),
    ],
    "MultiEdit": [
        (
            {"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}]},
            text("ok"),
            "Edited a.py → +1 −1",
        )
    ],
    "Write": [({"file_path": "a.py", "content": "x\ny\n"}, text("ok"), "Wrote a.py → +2 −0")],
    "NotebookEdit": [
        ({"notebook_path": "n.ipynb", "new_source": "x"}, text("ok"), "Edited n.ipynb")
    ],
    "Grep": [
        (
            {"pattern": "retry\\(", "path": "src"},
            text("Found 9 files\na\nb"),
            "Searched retry\\( in src → 9 files",
        ),
        (
            {"pattern": "x", "path": CWD},
            text("a.py:1:x\na.py:2:x\nb.py:7:x"),
            "Searched x → 3 in 2 files",
        ),
        ({"pattern": "x"}, text("No matches found"), "Searched x → nothing"),
    ],
    "Glob": [({"pattern": "**/*.py"}, text("a.py\nb.py"), "Found **/*.py → 2 files")],
    "LSP": [
        (
            {"operation": "references", "filePath": "a.py", "line": 3},
            text("Found 2 references"),
            "Searched references in a.py → 2 hits",
        )
    ],
    "ToolSearch": [({"query": "select:Read"}, text(""), "Searched select:Read → nothing")],
    "WebSearch": [
        (
            {"query": "aws backoff"},
            text('Links: [{"title":"A","url":"https://a"},{"title":"B","url":"https://b"}]'),
            "Searched “aws backoff” → 2 results",
        )
    ],
    "WebFetch": [
        (
            {"url": "https://docs.python.org/3/library/random.html", "prompt": "?"},
            text("x" * 18_000),
            "Fetched docs.python.org/3/library/random.html → 18 KB",
        )
    ],
    "Task": [
        (
            {"subagent_type": "Explore", "description": "find callers", "prompt": "Find"},
            text("Two callers."),
            "Explore find callers",
        )
    ],
    "Agent": [
        (
            {"subagent_type": "fork", "description": "count", "prompt": "Count"},
            text("Async agent launched successfully."),
            "fork count → in background",
        )
    ],
    "TodoWrite": [({"todos": _TODOS}, text("ok"), "Todos Take it out → 2 of 4 done")],
    "TaskCreate": [({"subject": "Mend", "description": "all"}, text("ok"), "Todos Mend")],
    "TaskUpdate": [({"taskId": "3", "status": "in_progress"}, text("ok"), "Todos 3 → in progress")],
    "TaskList": [
        ({}, text("#1 [completed] Read\n#2 [pending] Write"), "Todos Write → 1 of 2 done")
    ],
    "AskUserQuestion": [
        (
            _ASKED,
            text('User has answered your questions: "Which one?"="The left". You can now continue'),
            "Asked Which one? → The left",
        )
    ],
    "ExitPlanMode": [
        ({"plan": "# Mend it\n\n1. Read"}, text("approved"), "Proposed a plan Mend it → approved"),
        (
            {"plan": "Mend it"},
            text("The user doesn't want to proceed with this tool use."),
            "✕ Proposed a plan Mend it → refused",
        ),
    ],
    "Skill": [({"skill": "review"}, text("word " * 412), "Skill review → 412 words")],
    "SlashCommand": [({"command": "/review"}, text("ok"), "Skill /review")],
    "mcp__github__list_issues": [
        (
            {"query": "label:bug", "page": 2},
            text('[{"id":1},{"id":2}]'),
            "github list_issues label:bug → 2 items",
        ),
        ({"query": "x"}, text("Merged #41"), "github list_issues x → Merged #41"),
    ],
}

CODEX: Final = {
    "shell": [
        (
            '{"command":["bash","-lc","rg retry"],"workdir":"/home/me/app"}',
            output('{"output":"\\u001b[35ma.py\\u001b[0m:1:retry\\n","metadata":{"exit_code":0}}'),
            "Ran rg retry → 1 line",
        ),
        (
            '{"command":["bash","-lc","cargo test"]}',
            output('{"output":"' + "x" * 900 + '","metadata":{"exit_code":101}}'),
            "✕ Ran cargo test → exit 101",
        ),
        (
            json.dumps({"command": ["apply_patch", _PATCH]}),
            output("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess."),
            "Edited 2 files src/a.py, b.py → +3 −1",
        ),
    ],
    "shell_command": [
        (
            '{"command":"cargo test","workdir":"/srv"}',
            output(
                "Exit code: 0\nWall time: 4.2 seconds\nOutput:\n"
                "test result: ok. 12 passed; 0 failed; 0 ignored;\n"
            ),
            "Ran cargo test in /srv → 12 passed (4 s)",
        )
    ],
    "local_shell": [('{"command":["ls","-la"]}', output("a\nb"), "Ran ls -la → 2 lines")],
    "exec_command": [
        (
            '{"cmd":"echo hello"}',
            output(
                "Chunk ID: 93\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\nhello\n"
            ),
            "Ran echo hello → 1 line",
        ),
        (
            '{"cmd":"npm start"}',
            output(
                "Chunk ID: 9\nWall time: 1.0 seconds\nProcess running with session ID 3\nOutput:\n"
            ),
            "Ran npm start → still running (1 s)",
        ),
    ],
    "container.exec": [('{"cmd":["ls"]}', output("a"), "Ran ls → 1 line")],
    "write_stdin": [
        (
            '{"session_id":3,"chars":"y\\n"}',
            output("Output:\nok"),
            "Typed y↵ into session 3 → 2 lines",
        ),
        ('{"session_id":3,"chars":""}', output("x"), "Looked at session 3 → 1 line"),
    ],
    "read_file": [
        ('{"file_path":"/home/me/app/a.py"}', output("L1: x\nL2: y"), "Read a.py → 2 lines")
    ],
    "list_dir": [
        ('{"dir_path":"/home/me/app/src"}', output("a.py\nb.py"), "Listed src → 2 entries")
    ],
    "view_image": [('{"path":"/home/me/app/a.png"}', output("attached"), "Viewed a.png → 1 line")],
    "apply_patch": [(_PATCH, output("Success."), "Edited 2 files src/a.py, b.py → +3 −1")],
    "grep_files": [
        ('{"pattern":"x","path":"src"}', output("a.py\nb.py"), "Searched x in src → 2 files")
    ],
    "spawn_agent": [
        ('{"agent_type":"worker","message":"Mend it"}', output("{}"), "worker Mend it")
    ],
    "send_input": [('{"id":"a1","message":"go on"}', output("{}"), "Told go on")],
    "wait": [('{"ids":["a1"]}', output("{}"), "Waited for a1")],
    "resume_agent": [('{"id":"a1"}', output("{}"), "Resumed a1")],
    "close_agent": [('{"id":"a1"}', output("{}"), "Closed a1")],
    "update_plan": [
        (json.dumps({"plan": _PLAN}), output("Plan updated"), "Todos Write → 1 of 3 done")
    ],
    "request_user_input": [
        (
            json.dumps({"questions": [{"id": "q", "question": "Which?"}]}),
            output('{"answers":{"q":{"answers":["Left"]}}}'),
            "Asked Which? → Left",
        )
    ],
    "get_memory": [('{"key":"style"}', output("x"), "Recalled style")],
    "github__get_issue": [('{"number":3}', output('{"title":"x"}'), "github get_issue 3 → 13 B")],
    "read_mcp_resource": [('{"server":"s","uri":"db://t"}', output("x"), "Read db://t → 1 line")],
}

GEMINI: Final = {
    "run_shell_command": [
        (
            {"command": "npx vitest run"},
            text(
                "Command: npx vitest run\nDirectory: (root)\n"
                "Output:       Tests  2 failed | 31 passed (33)\n"
                "\nError: (none)\nExit Code: 1\nSignal: 0\n"
            ),
            "✕ Ran npx vitest run → exit 1",
        ),
        (
            {"command": "ls", "dir_path": "src"},
            text("Output: a\nb\nProcess Group PGID: 12"),
            "Ran ls in src → 2 lines",
        ),
    ],
    "read_file": [
        (
            {"file_path": "a.py", "start_line": 20, "end_line": 22},
            text("x\ny\nz"),
            "Read a.py:20–22 → 3 lines",
        ),
        ({"absolute_path": "/home/me/app/a.py"}, text("x\n"), "Read a.py → 1 line"),
    ],
    "read_many_files": [
        ({"paths": ["a.py", "b.py"]}, text("x"), "Read 2 files a.py, b.py → 1 line")
    ],
    "list_directory": [
        (
            {"dir_path": "."},
            text("Directory listing for /home/me/app:\nnotes.txt (7 bytes)"),
            "Listed . → 1 entry",
        )
    ],
    "replace": [
        (
            {"file_path": "a.py", "old_string": "a", "new_string": "b\nc"},
            text("ok"),
            "Edited a.py → +2 −1",
        )
    ],
    "write_file": [({"file_path": "a.py", "content": "x"}, text("ok"), "Wrote a.py → +1 −0")],
    "grep_search": [
        (
            {"pattern": "retry"},
            text(
                'Found 3 matches for pattern "retry" in path ".":\n---\n'
                "File: a.py\nL1: x\nFile: b.py\nL2: x"
            ),
            "Searched retry → 3 in 2 files",
        )
    ],
    "search_file_content": [({"pattern": "x"}, text("No matches found"), "Searched x → nothing")],
    "glob": [({"pattern": "*.py"}, text("Found 2 file(s) matching"), "Found *.py → 2 files")],
    "google_web_search": [
        ({"query": "x"}, text("A.\n\nSources:\n[1] A (u)\n[2] B (u)"), "Searched “x” → 2 results")
    ],
    "web_fetch": [
        ({"prompt": "Read https://a.org/b and say"}, text("x" * 500), "Fetched a.org/b → 500 B")
    ],
    "codebase_investigator": [
        ({"objective": "find it"}, text("x"), "codebase_investigator find it")
    ],
    "write_todos": [
        (
            {"todos": [{"description": "A", "status": "completed"}]},
            text("ok"),
            "Todos A → 1 of 1 done",
        )
    ],
    "ask_user": [
        ({"questions": [{"question": "Which?"}]}, text('{"answers":{"0":"L"}}'), "Asked Which? → L")
    ],
    "exit_plan_mode": [({"plan": "Do"}, text("ok"), "Proposed a plan Do → approved")],
    "activate_skill": [({"name": "review"}, text("ok"), "Skill review")],
    "save_memory": [({"fact": "uses tabs"}, text("ok"), "Noted uses tabs")],
    "mcp_github_list_issues": [({"owner": "me"}, text("[]"), "github list_issues me → 0 items")],
}

PI: Final = {
    "bash": [
        (
            {"command": "go test ./..."},
            text("ok  \tx/a\t0.1s\nok  \tx/b\t0.1s\n"),
            "Ran go test ./... → 2 packages ok",
        ),
        (
            {"command": "false"},
            text("\n\nCommand exited with code 1", failed=True),
            "✕ Ran false → exit 1",
        ),
    ],
    "read": [({"path": "a.py", "offset": 5, "limit": 2}, text("x\ny"), "Read a.py:5–6 → 2 lines")],
    "ls": [({"path": "src"}, text("a\nb"), "Listed src → 2 entries")],
    "edit": [({"path": "a.py", "oldText": "a", "newText": "b"}, text("ok"), "Edited a.py → +1 −1")],
    "write": [({"path": "a.py", "content": "x"}, text("ok"), "Wrote a.py → +1 −0")],
    "grep": [
        ({"pattern": "x", "path": "src"}, text("a.py:1: x"), "Searched x in src → 1 in 1 file")
    ],
    "find": [({"pattern": "*.py"}, text("a.py"), "Found *.py → 1 file")],
}

QWEN: Final = {
    "run_shell_command": [
        (
            {"command": "echo two; exit 3", "is_background": False},
            text(
                "Command: x\nDirectory: (root)\nOutput: two\nError: (none)\nExit Code: 3\n"
                "Signal: (none)\n",
                failed=True,
            ),
            "✕ Ran echo two; exit 3 → exit 3",
        )
    ],
    "edit": [
        ({"file_path": "a", "old_string": "a", "new_string": "b"}, text("ok"), "Edited a → +1 −1")
    ],
    "agent": [
        (
            {"subagent_type": "general-purpose", "description": "Count", "prompt": "Count."},
            text("Background agent launched successfully."),
            "general-purpose Count → in background",
        )
    ],
    "todo_write": [({"todos": _TODOS}, text("ok"), "Todos Take it out → 2 of 4 done")],
    "ask_user_question": [(_ASKED, text("Left"), "Asked Which one? → Left")],
    "mcp__s__t": [({"n": 1}, text("ok"), "s t 1 → ok")],
}

COPILOT: Final = {
    "view": [
        (
            {"path": "/home/me/app/a.md", "view_range": [3, 4]},
            text("x\ny"),
            "Read a.md:3–4 → 2 lines",
        )
    ],
    "bash": [
        (
            {"command": "echo two; exit 3", "description": "Say two"},
            text("two\n<shellId: 0 completed with exit code 3>"),
            "✕ Ran echo two; exit 3 → exit 3",
        ),
        (
            {"command": "echo"},
            text("two\n<shellId: 0 completed with exit code 0>"),
            "Ran echo → 1 line",
        ),
    ],
    "edit": [({"path": "a", "old_str": "a", "new_str": "b"}, text("ok"), "Edited a → +1 −1")],
    "create": [({"path": "a", "file_text": "x"}, text("ok"), "Wrote a → +1 −0")],
    "str_replace_editor": [
        ({"command": "view", "path": "a"}, text("x"), "Read a → 1 line"),
        (
            {"command": "str_replace", "path": "a", "old_str": "a", "new_str": "b"},
            text("ok"),
            "Edited a → +1 −1",
        ),
    ],
    "read_bash": [({"shellId": "0"}, text("x"), "Looked at 0 → 1 line")],
    "write_bash": [({"shellId": "0", "input": "y"}, text("x"), "Typed y into session 0 → 1 line")],
    "stop_bash": [({"shellId": "0"}, text("x"), "Stopped 0 → 1 line")],
    "task": [
        (
            {"agent_type": "general-purpose", "description": "Count lines", "prompt": "Count"},
            text("Two."),
            "general-purpose Count lines",
        )
    ],
    "update_todo": [
        ({"todos": "- [x] Read\n- [ ] Write"}, text("ok"), "Todos Write → 1 of 2 done")
    ],
    "store_memory": [({"fact": "tabs"}, text("ok"), "Noted tabs")],
    "report_intent": [({"intent": "Reading"}, text("ok"), "Called report_intent Reading → ok")],
}

DROID: Final = {
    "Read": [({"file_path": "/home/me/app/a.md"}, text("# A\nb\n"), "Read a.md → 2 lines")],
    "Execute": [
        (
            {"command": "false"},
            text("Error: the command failed (exit code: 1)", failed=True),
            "✕ Ran false → exit 1",
        )
    ],
    "Create": [({"file_path": "a", "content": "x"}, text("ok"), "Wrote a → +1 −0")],
    "ApplyPatch": [({"input": _PATCH}, text("ok"), "Edited 2 files src/a.py, b.py → +3 −1")],
    "FetchUrl": [({"url": "https://a.org"}, text("x"), "Fetched a.org → 1 B")],
    "TodoWrite": [
        ({"todos": "1. [completed] A\n2. [in_progress] B"}, text("ok"), "Todos B → 1 of 2 done")
    ],
    "ExitSpecMode": [({"plan": "Do", "title": "T"}, text("ok"), "Proposed a plan Do → approved")],
    "linear___list": [({"team": "a"}, text("[]"), "linear list a → 0 items")],
}

OPENCODE: Final = {
    "read": [
        (
            {"filePath": "/home/me/app/a.md"},
            text("<path>a</path>\n<content>\n1: x\n</content>"),
            {
                "file": {
                    "filePath": "a",
                    "content": "x",
                    "startLine": 1,
                    "numLines": 1,
                    "totalLines": 1,
                }
            },
            "Read a.md → 1 line",
        )
    ],
    "bash": [
        ({"command": "ls", "workdir": "/srv"}, text("a\n"), "Ran ls in /srv → 1 line"),
        (
            {"command": "exit 3"},
            {**text("(no output)", failed=True), "details": {"exit": 3}},
            "✕ Ran exit 3 → exit 3",
        ),
    ],
    "edit": [
        (
            {"filePath": "/home/me/app/a", "oldString": "a", "newString": "b"},
            text("ok"),
            "Edited a → +1 −1",
        )
    ],
    "write": [({"filePath": "a", "content": "x"}, text("ok"), "Wrote a → +1 −0")],
    "grep": [
        (
            {"pattern": "x"},
            text(
                "Found 3 matches\n/home/me/app/a.py:\n  Line 1: x\n\n"
                "/home/me/app/b.py:\n  Line 2: x"
            ),
            "Searched x → 3 in 2 files",
        )
    ],
    "list": [({"path": "."}, text("a\nb"), "Listed . → 2 entries")],
    "webfetch": [({"url": "https://a.org/", "format": "text"}, text("x"), "Fetched a.org → 1 B")],
    "todowrite": [({"todos": _TODOS}, text("[]"), "Todos Take it out → 2 of 4 done")],
    "todoread": [({}, text(json.dumps(_TODOS)), "Todos Take it out → 2 of 4 done")],
    "task": [
        (
            {"subagent_type": "explore", "description": "look", "prompt": "Look"},
            text("x"),
            "explore look",
        )
    ],
    "question": [({"questions": [{"question": "Which?"}]}, text("Left"), "Asked Which? → Left")],
}

CLINE: Final = {
    "read_files": [
        ({"files": [{"path": "a.py"}]}, text("1 | x"), "Read a.py → 1 line"),
        ({"files": [{"path": "a"}, {"path": "b"}, 3]}, None, "Read 3 files a, b"),
    ],
    "run_commands": [
        ({"commands": ["echo two"]}, text("two\n"), "Ran echo two → 1 line"),
        ({"commands": ["ls 'a b'", "exit 3"]}, None, "Ran ls 'a b'↵exit 3"),
    ],
}

KIMI: Final = {
    "Bash": [
        (
            {"command": "echo two; exit 3"},
            text("two\nCommand failed with exit code: 3.", failed=True),
            "✕ Ran echo two; exit 3 → exit 3",
        )
    ]
}

GOOSE: Final = {
    "developer__shell": [({"command": "ls"}, text("a\nb"), "Ran ls → 2 lines")],
    "developer__text_editor": [
        ({"command": "view", "path": "a"}, text("x\ny"), "Read a → 2 lines"),
        (
            {"command": "str_replace", "path": "a", "old_str": "a", "new_str": "b"},
            text("ok"),
            "Edited a → +1 −1",
        ),
    ],
    "developer__frobnicate": [
        ({"depth": 3}, text("done"), "Called developer__frobnicate 3 → done")
    ],
}

UNKNOWN: Final = {
    "frobnicate": [
        ({"depth": 3, "mode": "fast"}, text("done"), "Called frobnicate 3 → done"),
        ({"query": "x"}, text("bad", failed=True), "✕ Called frobnicate x → failed"),
        ({}, text(""), "Called frobnicate → ok"),
        (None, text("x" * 2100), "Called frobnicate → 2.1 KB"),
        ({"deep": {"a": [1]}}, text('{"a":{"b":1}}'), "Called frobnicate → 13 B"),
        ('{"cut": "ha', None, "Called frobnicate"),
        ("free words", None, "Called frobnicate free words"),
        ([1, 2], None, "Called frobnicate"),
    ],
    "": [({}, None, "Called a tool")],
}

AGENTS: Final[dict[str, Any]] = {
    "Claude Code": CLAUDE,
    "Codex": CODEX,
    "Gemini CLI": GEMINI,
    "pi": PI,
    "Qwen Code": QWEN,
    "Copilot CLI": COPILOT,
    "Droid": DROID,
    "OpenCode": OPENCODE,
    "Cline": CLINE,
    "Kimi Code": KIMI,
    "Goose": GOOSE,
    "nobody": UNKNOWN,
}


def _rows() -> Iterator[Any]:
    for agent, tools in AGENTS.items():
        for name, cases in tools.items():
            for number, case in enumerate(cases):
                yield pytest.param(name, *case, id=f"{agent} {name or 'unnamed'} {number}")


@pytest.mark.parametrize("row", [pytest.param(row.values, id=row.id) for row in _rows()])
def test_each_tool_of_each_agent_has_its_line(row: tuple[Any, ...]) -> None:
    name, arguments, result, *told, line = row
    assert line_of(name, arguments, result, *told) == line


def test_what_an_agent_keeps_beside_a_result_comes_first() -> None:
    told: dict[str, Any] = {
        "totalToolUseCount": 6,
        "totalTokens": 47_012,
        "totalDurationMs": 125_000,
    }
    task = {"subagent_type": "Explore", "description": "find callers"}
    line = "Explore find callers → 6 calls · 47k tokens (2 min)"
    assert line_of("Task", task, text("Two."), told) == line
    told = {"mode": "files_with_matches", "numFiles": 9, "filenames": []}
    assert line_of("Grep", {"pattern": "x"}, text("a"), told) == "Searched x → 9 files"
    told = {"file": {"filePath": "a", "content": "x", "startLine": 20, "numLines": 69}}
    assert line_of("Read", {"file_path": "a"}, text("x"), told) == "Read a:20–88 → 69 lines"
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": ["-a", "+b", "+c"]}
    edit = {"file_path": "a", "old_string": "q", "new_string": "q"}
    assert line_of("Edit", edit, text("ok"), {"structuredPatch": [hunk]}) == "Edited a → +2 −1"


def test_an_image_that_was_read_was_viewed() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    result = {"type": "tool_result", "content": [{"type": "image", "source": source}]}
    assert line_of("Read", {"file_path": "a.png"}, result) == "Viewed a.png → image/png"


def test_an_item_of_a_tool_at_the_provider_is_an_act() -> None:
    search = {"type": "web_search_call", "action": {"type": "search", "query": "backoff"}}
    page = {"type": "web_search_call", "action": {"type": "open_page", "url": "https://a.org/b"}}
    called = {"type": "mcp_call", "server_label": "s", "name": "t", "arguments": '{"q":"x"}'}
    lines = [act_of_item(item) for item in (search, page, {**called, "output": "fine"})]
    assert [act and act.line for act in lines] == [
        "Searched “backoff”",
        "Fetched a.org/b",
        "s t x → fine",
    ]
    failed = act_of_item({**called, "output": "", "error": "no"})
    assert failed is not None
    assert failed.failed
    assert act_of_item({"type": "reasoning"}) is None


def test_a_failure_shows_the_last_lines_as_a_terminal_does() -> None:
    said = "10%\r50%\r100%\n\x1b[31mFAILED\x1b[0m test_a\n\n1 failed\n"
    act = act_of(ToolCall("c", "Bash", {"command": "x"}, "tool_use"), text(said, failed=True))
    assert act.tail() == ["100%", "FAILED test_a", "1 failed"]


_HOSTILE: Final = "\x1b]0;title\x07\x1b[2J\u202egnp\u2066\x00\x9b31m\r\n\tx\u200b\ud800"
_VALUES: Final[list[Any]] = [
    *(None, True, 0, -1, 10**30, 1.5, float("nan"), "", [], {}, [None], [[1]], {"a": {}}),
    *(_HOSTILE, _HOSTILE * 300, [_HOSTILE] * 30, {_HOSTILE: _HOSTILE}, [{"status": []}]),
    *("[" * 900, '{"a":' * 900, "cd / && ", "bash -lc '", "https://", "*** Begin Patch\n"),
]


def _is_clean(act: Act) -> bool:
    texts = (act.verb, act.object, act.place, act.outcome)
    return all(part.isprintable() for part in texts) and sum(map(len, texts)) < 800


@pytest.mark.parametrize("agent", AGENTS)
def test_no_argument_or_result_makes_a_line_that_is_not_clean(agent: str) -> None:
    tools: dict[str, Any] = AGENTS[agent]
    for name, cases in tools.items():
        arguments = next((case[0] for case in cases if isinstance(case[0], dict)), {})
        for value in _VALUES:
            shown = value if isinstance(value, str) else "x"
            results: list[Any] = [None, text(shown), output(shown), {"content": value}]
            results += [{"output": value}, {"type": "function_call_output", "output": value}]
            for given in (value, *({**arguments, key: value} for key in arguments)):
                for result in results:
                    call = ToolCall("c", name, given, "tool_use")
                    assert _is_clean(act_of(call, result, cwd=CWD)), (name, given, result)
            told = dict.fromkeys(("file", "numFiles", "totalTokens", "structuredPatch"), value)
            assert _is_clean(act_of(ToolCall("c", name, arguments, ""), text("x"), told=told))


@pytest.mark.parametrize("name", [_HOSTILE, _HOSTILE * 500, "mcp__" + "_" * 5_000, "a__", "__b"])
def test_a_hostile_name_of_a_tool_is_clean(name: str) -> None:
    assert _is_clean(act_of(ToolCall("c", name, {"a": 1}, "tool_use"), text("x")))


def test_what_is_cut_is_masked_before() -> None:
    secret = "sk-" + "a" * 600
    with masking(lambda whole: whole.replace(secret, "[masked]")):
        call = ToolCall("c", "Bash", {"command": f"curl {secret} " + "b" * 600}, "tool_use")
        shown = act_of(call, text(f"{secret}\n" * 9, failed=True))
    assert "[masked]" in shown.object
    assert "aaa" not in shown.object


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("Grep", {"pattern": "x"}, "a:"),
        ("Grep", {"pattern": "x"}, "a.py:1:x\n"),
        ("update_todo", {"todos": " \t"}, "x"),
        ("WebSearch", {"query": "x"}, " \n"),
        ("Bash", {"command": 'bash -lc "\\a'}, "=" * 9),
        ("Bash", {"command": "cd "}, "Output: a\nError"),
        ("Bash", {"command": "x"}, "\x1b[500Ca\x1b[1K"),
        ("frobnicate", {"a": "["}, "["),
        ("apply_patch", {"input": "*** Add File: a\n+x\n"}, "ok"),
    ],
)
def test_the_cost_of_an_act_grows_with_its_call(
    name: str, arguments: dict[str, str], said: str
) -> None:
    def cost(times: int) -> float:
        given = {key: value * times for key, value in arguments.items()}
        call, result = ToolCall("c", name, given, "tool_use"), text(said * times)
        started = process_time()
        act_of(call, result, cwd=CWD).tail()
        return process_time() - started

    small, large = (min(cost(times) for _ in range(3)) for times in (5_000, 40_000))
    assert large < max(0.05, 24 * small)  # eight times as much; a square would be 64 times
