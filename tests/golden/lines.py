"""The lines of commands that the goldens run: which sessions each line meets is in `families`.

FILE is the session. A line with `; ` is of several commands. A line of READING runs at two widths,
with and without colour, and with `--json` where the command has it; the others run once, on a copy,
and what they write counts too.
"""

from __future__ import annotations

from typing import Final


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.strip().split("\n") if line)


CORE: Final = _lines("""
show FILE
tree FILE
context FILE
verify FILE
""")
"""What the quick check runs for each session."""

READING: Final = _lines("""
show FILE
tree FILE
context FILE
verify FILE
show FILE @~1
tree FILE --all
tree FILE --turn 1
tree FILE --depth 1
diff FILE @ @~3
labels FILE
branches FILE
path FILE
context FILE @~3 --verbatim
context FILE --to anthropic
context FILE --to openai-responses
context FILE --to openai-chat
stats FILE
stats FILE --by model
stats FILE --by day --list-prices
files FILE
repair FILE --dry-run
gc FILE --dry-run --as-of 2031-01-01
export FILE
search e FILE
search [a-z]+t FILE --regex --current
blob ls FILE
blob verify FILE
handle resolve FILE
""")

WRITING: Final = {
    "to pi": "convert FILE --to pi -o new.jsonl",
    "to claude-code": "convert FILE --to claude-code -o new.jsonl",
    "to codex": "convert FILE --to codex -o new.jsonl",
    "to gemini": "convert FILE --to gemini -o new.jsonl",
    "to atif": "convert FILE --to atif -o new.json",
    "page": "export FILE --html -o new.html",
    "page, redacted": "export FILE --html --redact -o new.html",
    "export --redact": "export FILE --redact",
    "import": "import FILE -o made; import FILE -o made",
    "backup": "backup FILE --store made; backup FILE --store made",
    "fork": "fork FILE new.jsonl; fork FILE other.jsonl --at @~2",
    "export-branch": "export-branch FILE @~2 new.jsonl --with-path --inline",
    "repair": "repair FILE; verify FILE",
    "migrate": "migrate FILE",
    "merge": "append FILE --text a; append FILE --text b --lane b; merge FILE b; context FILE",
    "scratch": "append FILE --text tried --scratch; gc FILE --as-of 2031-01-01",
    "branch": "branch FILE @~1 --summary left --name b; append FILE --text a; tree FILE --all",
    "pop": "push FILE; append FILE --text inside; pop FILE --summary done",
    "compact": "compact FILE --keep 1 --summary short; context FILE",
    "edit": "edit-context FILE @~1 --drop; label FILE @~1 mark; rename FILE name; context FILE",
    "sync": "copy FILE b.jsonl; append FILE --text a; append b.jsonl --text b; sync FILE b.jsonl",
}
"""For each name the commands that write, or print much."""

HOME_READING: Final = _lines("""
ls
ls --all --branches
ls --sort size --limit 5
ls --agent codex --cwd WORK
ls --since 2029-10-03
ls STORE
search parser
search parser --role user --limit 3
search r[a-z]+y --regex --agent pi
search PARSER --ignore-case --tool read
search tag --everything --blobs
stats
stats --by agent
stats --by model --list-prices
stats --by day --since 2029-10-02
stats --by project
blame WORK/app/server.py
blame WORK/app/store.py:2-5 --prompt
blame WORK/docs/guide.md:1
history WORK/app/server.py
history WORK/app/store.py --stat --prompt
recover WORK/app/server.py
recover WORK/docs/guide.md --at 2029-10-03
files latest
show latest
tree old-1
resume latest
resume plain --in codex
verify STORE/-work-app/damaged.jsonl STORE/-work-app/plain.jsonl
gc --dry-run --as-of 2031-01-01
trash --empty --older-than 1d --dry-run
restore
handle schemas
export --list-rules
call --list
demo
""")

HOME_WRITING: Final = _lines("""
import homes/claude -o made; import homes/codex homes/gemini homes/pi -o made
backup --store made; backup --store made; ls made
backup homes/pi --store made --json; trash latest --store made; restore latest --store made
copy STORE made; append made/-work-app/plain.jsonl --text b; sync STORE made; ls made
trash plain; restore; restore plain; trash branches lanes; trash --empty --older-than 0m --json
move-project WORK /moved --json; ls --cwd /moved
new --name title --cwd /here --id my-id; append my-id --text hi; ls --cwd /here --json
gc --as-of 2031-01-01 --json
resume mixed --in claude-code; resume mixed --in codex; resume mixed --in pi
resume old-1 --in gemini
recover WORK/app/server.py --at 2029-10-02 -o old.py --partial
demo --keep kept
""")

CALLS: Final = _lines("""
tree.create --cwd /here --name made --model gpt-5 --system brief
tree.list --project WORK
tree.render --session mixed
tree.render --session mixed --all --budget 300
tree.get --session branches
tree.fork --session branches --at @~2 --name forked
tree.export --session mixed --redact
tree.export --session mixed --budget 300 --offset 50
tree.export_file --session mixed --out a.md
tree.export_branch --session branches --entry @~2 --out b.jsonl
tree.convert --session mixed --to pi --out c.jsonl
node.create_text --session plain --text hello
node.create_message --session plain --message {"role":"assistant","content":"hi"} --scratch
node.create_handle --session plain --handle file@1.0.0::path:app/store.py --preview x
node.attach --session plain --path WORK/app/store.py
node.get --session mixed
node.get --session spilled --entry @~2
node.children --session branches --entry @~6
node.label --session plain --label mark --entry @~1
node.label --session plain --label mark --entry @~1; node.unlabel --session plain --entry mark
node.labels --session edits
node.find --session mixed --text parser
node.find --session mixed --regex --text [a-z]+t --role user --budget 300
node.edit_context --session plain --entry @~1 --text shorter
context.get_path --session mixed
context.get_handles --session handles
context.resolve --session handles --root WORK
context.get --session mixed
context.get --session mixed --to anthropic
context.get --session mixed --to openai-chat --budget 400
context.get --session mixed --to openai-responses
context.get --session streamed --verbatim
context.request --session 5e551015
context.estimate --session compactions --window 2000
branch.list --session branches
branch.here --session lanes
branch.switch --session branches --ref @~1
branch.start --session branches --ref @~3 --name new --summary left
branch.push --session plain --note why; branch.pop --session plain --summary done
branch.rewind --session plain
branch.plan --session plain --keep 20
branch.compact --session plain --keep 20 --summary short
branch.merge --session lanes --ref review
branch.cherry_pick --session plain --ref @~1 --source branches
branch.diff --session branches --one @ --other @~4
branch.try --session plain; branch.lanes --session plain --scratch
branch.keep --session scratch --lane scratch/lost
branch.lanes --session lanes
session.list --limit 4
session.list --order size --agents pi --agents codex --branches
session.search --pattern parser
session.search --pattern r[a-z]+y --regex --budget 300
session.outline --session mixed
session.outline --session 5e551015 --subagents
session.turn --session mixed --turn 2
session.turn --session 5e551015 --turn 3 --longest 100
session.stats --session mixed
session.totals --by model
session.totals --by day --agents sessiontree
session.show --session 5e551015
session.show --session mixed
session.rename --session plain --name renamed
session.metadata --session plain --facts {"owner":"me"}
session.trash --session plain; session.trashed; session.restore --session plain
session.trash --session plain; session.empty_trash --older-than 0m
session.move_project --old WORK --new /moved
session.import --sources homes/pi/sessions
session.record --session plain --events [{"type":"user","message":{"role":"user","content":"x"}}]
session.resume_command --session mixed --agent codex
file.blame --file WORK/app/server.py
file.history --file WORK/app/store.py --budget 600
file.recover --file WORK/app/server.py
file.list --session 5e551015
handle.schemas
handle.resolve --session handles --handle file@1.0.0::path:app/store.py --root WORK
health.check
health.check --session damaged
health.repair --session damaged
health.gc --session scratch --dry-run
health.blobs --session spilled
schema.list
schema.get --method tree.render
schema.hash
tree.nope
tree.render --session nobody
tree.render
branch.switch --session branches --ref nobody
""")
"""Calls of methods, each as a command `call`."""

REFUSED: Final = _lines("""
nope
tre
ls --nope
ls --limit x
ls nowhere
search
search [ --regex
stats --by nope
blame nowhere.py
blame WORK/app/server.py:0
history nowhere.py
recover WORK/app/server.py --at nope
resume nobody
resume latest --in nope
trash nobody
restore nobody
move-project WORK WORK
import nowhere -o made
backup --store nowhere
sync nowhere nowhere2
copy nowhere made
convert latest --to nope
export latest --format nope
call nope
call tree.render
call tree.render --json [
mcp --tools nope
mcp --http nope
show ls
gc --as-of whenever
""")
"""Wrong usage, beside what each command does without its words and with a wrong option."""

TERMINAL: Final = _lines("""
ls
search parser --limit 5
stats --by model
tree mixed
diff branches @ @~4
show mixed
labels edits
context plain
history WORK/app/server.py --stat
blame WORK/app/server.py
demo
""")
"""What is written to a terminal, at two widths."""

LIBRARY: Final = (
    *("id", "lane_name", "leaf", "name", "metadata", "damage", "notes", "header", "conflict"),
    *("entries()", "path()", "turns()", "branches()", "tree()", "outline()", "labels()"),
    *("context()", "context(verbatim=True)", "render(all=True, width=60)", "conversation()"),
    *(
        "stats()",
        "file_events()",
        "resolved_path()",
        "resolved_tree()",
        "verify()",
        "to_markdown()",
    ),
    *(
        "compaction_plan(keep=20)",
        "needs_compaction(2000)",
        "find(type='message')",
        "children('@~1')",
    ),
    *("compare('@', '@~3')", "block('@', 0)", "original('@')", "sent_request()", "to_html()"),
    *("context().to_anthropic()", "context().to_openai()", "context().to_openai('chat')"),
)
"""What programs ask of a session."""

STORE_LIBRARY: Final = (
    *("list()", "latest()", "trashed()", "find('mixed')", "search('parser')", "paths()"),
    *("project_dir('/here')", "gc(dry_run=True)"),
)

PAGES: Final = (
    *("/", "/sessions", "/sessions?counted", "/search?q=parser", "/search?q=", "/costs?by=model"),
    *("/costs?by=day&days=0", "/s/nobody", "/s/ID", "/s/ID/index", "/s/ID/about", "/s/ID/branches"),
    *("/s/ID/compare?one=@&other=@~4", "/s/ID/seen?at=@", "/s/ID/seen?at=nobody", "/s/ID/0"),
    *("/nowhere",),
)
"""What the view in the browser is asked for; ID is the session `mixed`."""

SCREENS: Final = (
    *((), tuple("parser"), ("escape",), tuple("Mixed"), ("enter",), ("dollar_sign",), ("escape",)),
    *(("home", "enter"), ("question_mark",), ("escape", "escape"), ("slash", *"tag"), ("enter",)),
    *(("escape", "escape", "escape"), ("ctrl+e", "tab")),
)
"""The keys between the screens of the browser in the terminal."""
