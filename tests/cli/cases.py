"""The sessions of the tests of commands, and the lines of commands that run on each.

A case is a folder of `printed/`, or a session of another agent in `fixtures/`. `tests.cli.printing`
keeps what the lines print as texts, `tests.golden` as digests of the exact bytes. Nothing of
sessiontree is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
HERE: Final = Path(__file__).parent / "printed"
FOREIGN: Final = {path.name: path for path in sorted(FIXTURES.glob("foreign-*/"))}
CASES: Final = {
    path.name: path for path in sorted(HERE.glob("*/")) if path.name not in ("expected", "worked")
} | FOREIGN

READING: Final = """
show FILE
show FILE --json
show FILE @~1
show FILE no-such
tree FILE
tree FILE --all
tree FILE --json
labels FILE
branches FILE
branches FILE --json
path FILE
context FILE
context FILE --json
context FILE @~3 --verbatim --json
context FILE --to anthropic
context FILE --to openai-responses
context FILE --to openai-chat
stats FILE
stats FILE --json
verify FILE
verify FILE --json
repair FILE --dry-run --json
export FILE
export FILE --redact
search e FILE
search w\\d+ FILE --regex --json
ls . --branches
ls . --json
blob ls FILE
handle resolve FILE
convert FILE --to pi -o -
convert FILE --to claude-code -o new.jsonl
convert FILE --to codex -o new.jsonl
convert FILE --to gemini -o new.jsonl
convert FILE --to atif -o new.json --json
tree FILE --turn 2 --json
diff FILE @ @~3 --json
stats FILE --by model --json
"""

WRITING: Final = """
append FILE --text hello
append FILE --text hello --lane new --json
append FILE --text hello --parent @~2
append FILE --text hello --scratch; gc FILE --as-of 2030-01-01; gc FILE --as-of 2031-01-01 --json
label FILE @~1 mark; show FILE mark; label FILE mark --clear
rename FILE title; ls . --json
edit-context FILE @~1 --drop
branch FILE @~2 --summary left; branches FILE; context FILE
switch FILE @~1
rewind FILE
push FILE; append FILE --text inside; pop FILE --summary done
compact FILE --keep 50; context FILE; stats FILE
cherry-pick FILE @~1
fork FILE new.jsonl; convert new.jsonl --to pi -o converted.jsonl; import converted.jsonl -o .
export-branch FILE @~1 new.jsonl --redact
export-branch FILE @~1 new.jsonl --inline --with-path
convert FILE --to claude-code -o new.jsonl; append FILE --text more; import new.jsonl -o .
repair FILE
gc FILE --as-of 2030-01-01
migrate FILE
trash FILE --store .; restore --store .; ls .; restore latest --store . --json
move-project /project /moved --store . --json
"""

RECORDING: Final = """
record FILE < events.jsonl; context FILE; stats FILE
record FILE --prompt hello --granularity message --json < events.jsonl
record FILE --lane side < events.jsonl; record FILE --lane side < events.jsonl
record FILE < events.jsonl; convert FILE --to atif -o new.json; export FILE --redact
record FILE --granularity message < events.jsonl; convert FILE --to pi -o -; tree FILE --all
record FILE < events.jsonl; convert FILE --to claude-code -o new.jsonl; verify FILE
"""

CONVERTING: Final = """
convert FILE --to pi -o new.jsonl
convert FILE --to claude-code -o new.jsonl
convert FILE --to codex -o new.jsonl
convert FILE --to gemini -o new.jsonl
convert FILE --to atif -o new.json
export FILE
context FILE --json
context FILE --to anthropic
context FILE --to openai-responses
context FILE --to openai-chat
stats FILE
tree FILE --all
branches FILE
verify FILE
fork FILE new.jsonl
export-branch FILE @~5 new.jsonl
convert FILE --to pi -o new.jsonl; import new.jsonl -o made
"""

OPTIONS: Final = """
new a.jsonl --name title --cwd /here --id my-id --metadata {"a":1} --json; show a.jsonl --json
append FILE --role assistant --text hi --metadata {"a":1} --json
append FILE --attach notes.md --preview notes; show FILE; blob ls FILE --json
append FILE --text see --attach notes.md --json
append FILE --handle file@1.0.0::path:notes.md --preview notes; handle resolve FILE --root . --json
append FILE --text a --lane scratch/a; keep FILE scratch/a --json
append FILE --text b --lane b; keep FILE b; tree FILE --all; branches FILE --json
label FILE @~1 mark --json; label FILE mark --clear --json
rename FILE title --json
edit-context FILE @~1 --text new --json; context FILE; show FILE @~1
edit-context FILE @~1 --content [{"type":"text","text":"x"}]; context FILE
path FILE @~3 --json
context FILE --root . --to anthropic
handle schemas; handle schemas --json
handle resolve FILE --json
handle resolve file@1.0.0::path:notes.md --session FILE --root .
blob cat FILE 0bb6; blob verify FILE; blob verify FILE --json
fork FILE new.jsonl; ls . --sort name; ls . --sort size --json; ls . --limit 1
search E . --ignore-case --limit 2
search e FILE --role assistant
search e FILE --tool read --json
search e FILE --since 2026-02-11
search e FILE --current --blobs
search e . --cwd /project --limit 1 --json
search x{50} FILE --regex --blobs
branch FILE @~2 --name other --json; switch FILE other --json; branches FILE
branch FILE @~2 --summary left --lane second; tree FILE --all
branch FILE @~2 --scratch --json
branch FILE @~2 --summarizer cat; show FILE
branch-here FILE @~2 --name here; show FILE here
switch FILE @~1 --lane second --json
rewind FILE --json; rewind FILE --scratch
push FILE --note why --json; append FILE --text deep; pop FILE --summarizer cat --json
compact FILE --first-kept @~2 --summary short --json; context FILE
compact FILE --plan; compact FILE --plan --json --keep 100; compact FILE --keep 100 --summarizer cat
fork FILE other.jsonl; cherry-pick FILE @~1 --from other.jsonl --json
append FILE --text aside --lane side; merge FILE side --summary both --json; context FILE
append FILE --text aside --lane side; merge FILE side; merge FILE side
fork FILE new.jsonl --at @~3 --cwd /other --json; show new.jsonl --json
export-branch FILE @~3 new.jsonl --json; verify new.jsonl; stats new.jsonl
export FILE --format markdown -o a.md --redact --json
export FILE --remote-images --root .
convert FILE --to pi --root . --json
trash FILE --store . --json; trash --empty --older-than 0m --store . --dry-run
trash FILE --store .; trash --empty --older-than 0m --store . --json
gc --store . --dry-run --as-of 2030-01-01; gc --store . --json
import FILE -o made; import notes.md -o made; import . -o made --dry-run
convert FILE --to pi -o a.jsonl; import a.jsonl -o made; backup a.jsonl --store made --json
convert FILE --to pi -o a.jsonl; import a.jsonl -o made; backup . notes.md nope --store made
convert FILE --to codex -o a.jsonl; import a.jsonl -o made; backup . --store made --quiet
backup . --store nope; backup . --store notes.md
export FILE --html --markdown
files FILE; files FILE --json; history notes.md FILE --json; recover notes.md FILE
blame notes.md FILE; blame notes.md:1 FILE --json; blame notes.md:0 FILE; recover notes.md --at x
"""

REFUSED: Final = """
new FILE
new a.jsonl --metadata [1]
new a.jsonl --name a\x1bb
append FILE
append FILE --text hello --parent nope
append FILE --text hello --lane a~b
append FILE --text hello --lane a --scratch
append FILE --handle nonsense
append FILE --attach nope.md
append FILE --text hello --metadata 5
append nope.jsonl --text hello
append FILE --text hello --preview x
show FILE ./@
append FILE --role tool < notes.md
label FILE @ a~1
label FILE nope mark
label FILE @~1 mark; label FILE @~2 mark
label FILE mark --clear
edit-context FILE @~1
edit-context FILE @~1 --drop --text x
edit-context FILE 752f --content {}
show FILE ffff
show notes.md
show .
tree nope.jsonl
context FILE @~999
context FILE --to nope
branch FILE @
branch FILE nope
branch FILE @~1 --name @
branch FILE @~1 --summary a --summarizer cat
branch FILE @~1 --summarizer false
switch FILE nope
rewind FILE @~99
pop FILE
compact FILE --keep 0
compact FILE --plan --scratch
compact FILE --keep 1 --first-kept @
compact FILE --first-kept nope --summary s
compact FILE --summarizer false --keep 10
cherry-pick FILE nope
cherry-pick FILE @ --from nope.jsonl
merge FILE @
merge FILE @~1
keep FILE main
keep FILE nope
fork FILE FILE
fork FILE new.jsonl --at nope
export-branch FILE @ FILE
export FILE -o FILE
export FILE --json
export FILE --rules nope.toml
convert FILE --to pi -o FILE
convert notes.md --to pi -o new.jsonl
blob cat FILE ffff
blob cat FILE 0
handle resolve nonsense
handle resolve file@1.0.0::path:../x --root .
search [ FILE --regex
search e nope.jsonl
ls ./nope
import FILE
import nope -o made
import notes.md -o made
trash nope.jsonl --store .
trash --empty --store .
trash FILE --empty --older-than 7d --store .
restore nope --store .
restore latest --store .
move-project /project /project --store .
gc nope.jsonl
gc FILE --as-of whenever
verify nope.jsonl
repair nope.jsonl
migrate FILE
migrate notes.md
record nope.jsonl < notes.md
record FILE --lane a --scratch < notes.md
follow nope.jsonl
"""

IMPORTING: Final = """
import FILE -o made; import FILE -o made
import FILE --dry-run --json
show FILE --json
tree FILE --all
tree FILE --json
labels FILE
path FILE --json
context FILE --json
context FILE --to anthropic
stats FILE --json
verify FILE --json
export FILE --redact
search e FILE --json
ls . --json
convert FILE --to pi -o new.jsonl
convert FILE --to claude-code -o new.jsonl
convert FILE --to codex -o new.jsonl
convert FILE --to gemini -o new.jsonl
"""

MORE: Final = {
    "own": WRITING + OPTIONS + REFUSED,
    "damaged": WRITING,
    "version-1": "migrate FILE\nrepair FILE\n",
}
"""The commands that write, where they meet the most."""

ODD: Final = """
convert FILE --to pi -o new.jsonl
convert FILE --to claude-code -o new.jsonl
convert FILE --to codex -o new.jsonl
convert FILE --to gemini -o new.jsonl
convert FILE --to atif -o new.json
export FILE --redact
context FILE
context FILE --to anthropic
context FILE --to openai-responses
context FILE --to openai-chat
search [a-z] FILE --regex --json
search zap . --json
stats FILE --json
tree FILE
verify FILE
handle resolve FILE
ls . --json
diff FILE h0000000 @ --json
tree FILE --all
tree FILE --all --json
show FILE @~1
fork FILE new.jsonl; verify new.jsonl
"""

ODD_TREES: Final = """
convert FILE --to pi -o new.jsonl
convert FILE --to claude-code -o new.jsonl
convert FILE --to codex -o new.jsonl
convert FILE --to gemini -o new.jsonl
convert FILE --to atif -o new.json
export FILE
context FILE
tree FILE
tree FILE --all
branches FILE
labels FILE
verify FILE
stats FILE
repair FILE --dry-run --json
search [a-z] FILE --regex
switch FILE t0000007; context FILE
merge FILE side; context FILE; pop FILE --summary popped
keep FILE scratch/a; gc FILE --as-of 2030-01-01; verify FILE
export-branch FILE t0000002 new.jsonl; verify new.jsonl; convert new.jsonl --to pi -o pi.jsonl
"""

ODD_SETTINGS: Final = """
convert FILE --to pi -o new.jsonl
convert FILE --to claude-code -o new.jsonl
convert FILE --to codex -o new.jsonl
convert FILE --to gemini -o new.jsonl
convert FILE --to atif -o new.json
context FILE m0000018 --json
context FILE m0000018 --to anthropic
context FILE m0000018 --to openai-responses
context FILE m0000018 --to openai-chat
context FILE m0000030 --json
context FILE --json
export FILE
tree FILE --all
show FILE --json
stats FILE
convert FILE --to pi -o new.jsonl; import new.jsonl -o made
"""

ODD_OF_OTHERS: Final = """
import FILE -o made
show FILE --json
tree FILE --all
verify FILE
context FILE --json
stats FILE --json
search [a-z] FILE --regex --json
ls . --json
"""

ALONE: Final = {
    "stream": RECORDING,
    "any": CONVERTING,
    "shaped": CONVERTING,
    "odd": ODD,
    "odd-trees": ODD_TREES,
    "odd-settings": ODD_SETTINGS,
    **{f"odd-{agent}": ODD_OF_OTHERS for agent in ("claude-code", "codex", "gemini", "pi")},
}
"""The commands of the other cases. `any` and `shaped` grew at random.

`odd` has a message of each shape of each API and program, also those that none should write.
`odd-trees` has compactions, edits and merges in each place. `odd-settings` has settings, tools and
edits of each kind, and names that are taken. The sessions of other agents have their
lines in each shape.
"""


def lines_of(name: str) -> list[str]:
    """The lines of a case: in each, commands between `; `."""
    lines = IMPORTING if name in FOREIGN else ALONE.get(name) or READING + MORE[name]
    return [line for line in lines.split("\n") if line]
