"""What a shell script certainly does to files, and the commits it made.

Read are: files written from here-documents and from plain words (`cat > F <<'EOF'`, `tee F`, `echo
WORDS > F`), `mv`, `git mv`, `rm`, `git rm`, `cd`, and the patches of `apply_patch`. A command that
changes a file in another way, such as `sed -i` or a formatter, is known to change it, and not how.
`cat F` and `sed -n 1,9p F` show a file. The commits of a call are those that `git commit` prints,
as in `[main 1a2b3c4] Subject`.

Invariants: of what depends on an expansion, a loop or a condition, nothing is known; the effects of
a command that follows `||` or a test, or is in a pipe, are not certain and left out; a script is
read up to a subshell, a function or an exit.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

Effect = Literal["write", "append", "move", "delete", "patch", "change", "show"]

LONGEST: Final = 1 << 20
"""Characters of a script that is read."""

_HERE: Final = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|([\w.]+))")
_EXPANDS: Final = re.compile(r"[$`\\]")
_PATTERN: Final = re.compile(r"[*?\[~]|\{[^{}]*(?:,|\.\.)[^{}]*\}")
"""What a shell replaces in a word that is not quoted; quotes are not told here."""

_PIECE: Final = re.compile(
    r"""(?P<end>[ \t\r\n]+|[;&|<>]+)|(?P<plain>[^ \t\r\n;&|<>'"\\]+)|'(?P<single>[^']*)'"""
    r"""|"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"|\\(?P<escaped>.)""",
    re.DOTALL,
)
_INNER: Final = re.compile(
    r"""\s*(?:[\w./-]{0,100}/)?(?:ba|z)?sh[ \t]+-l?c[ \t]+"""
    r"""(?:'(?P<single>[^']*)'|"(?P<double>[^"\\$`]*(?:\\.[^"\\$`]*)*)")\s*""",
    re.DOTALL,
)
"""A shell with its script in quotes; one that the shell around it would expand is not."""

_ESCAPED_IN_DOUBLE: Final = re.compile(r"""\\(["\\$`])""")
_ESCAPED: Final = re.compile(r"""\\(["\\])""")


_BODY: Final = "\0here-document"
"""The word that stands for a here-document."""

_OPERATORS: Final = frozenset({";", "&&", "||", "|", "&", "|&", ";;"})
_UNCERTAIN: Final = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case"),
        *("esac", "{", "select", "function", "coproc", "exec", "return", "break", "continue"),
    }
)
_TESTS: Final = frozenset(
    {"[", "[[", "test", "!", "false", "grep", "egrep", "rg", "diff", "cmp", "which", "command"}
)
"""Commands that are asked whether something is so: what follows `&&` may not be done."""

_CHANGERS: Final = frozenset(
    {
        *("sed", "perl", "black", "prettier", "gofmt", "rustfmt", "ruff", "isort", "autopep8"),
        *("patch", "dos2unix", "unix2dos", "truncate", "cp", "install", "ln", "dd", "ex", "ed"),
        *("eslint", "clang-format", "touch", "yapf", "mv"),
    }
)
"""Commands that may change the files they name."""

_GIT_CHANGERS: Final = frozenset({"checkout", "restore", "reset", "stash", "apply", "revert"})
_SHOWN: Final = re.compile(r"(\d{1,9}),(\d{1,9})p")


class ShellEffect(msgspec.Struct, frozen=True):
    """What a command does to one file."""

    # `write` and `append` give `text`; `move` has the new path in `to`; `patch` is a patch of
    # `apply_patch`, in `text`; `change` is one that is not told; `show` prints the file, from the
    # line `first` to `last` where it has them
    kind: Effect
    path: str  # the path as written, below `cd`; empty for a patch
    text: str = ""
    to: str = ""
    first: int | None = None
    last: int | None = None


class _ShellCommand(msgspec.Struct):
    words: list[str]
    into: str | None
    appends: bool
    here: str | None
    is_certain: bool


@lru_cache(maxsize=2)  # what a script changed and what it showed are asked one after the other
def effects(script: str) -> Sequence[ShellEffect]:
    """The effects of a script on files, in order."""
    if len(script) > LONGEST:
        return []
    found: list[ShellEffect] = []
    folder = ""
    for command in _commands(script):
        words = command.words
        if words[:1] == ["cd"] and len(words) == 2 and command.is_certain:
            folder = posixpath.join(folder, words[1])
            continue
        found += (_below(folder, effect) for effect in _effects_of(command))
    return found


def script_of(arguments: object) -> str:
    """The script in the arguments of a call of a shell; empty if there is none."""
    if not isinstance(arguments, dict):
        return ""
    given = next((arguments[key] for key in ("command", "cmd", "commands") if key in arguments), "")
    if isinstance(given, str):
        return _inner_script(given)
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        return ""
    if "command" not in arguments and "cmd" not in arguments:  # each of the commands is a script
        return "\n".join(given)
    if (
        len(given) == 3
        and posixpath.basename(given[0]) in ("bash", "sh", "zsh")
        and "c" in given[1]
    ):
        return str(given[2])
    if given[:1] == ["apply_patch"] and len(given) == 2:
        return f"apply_patch <<'(patch)'\n{given[1]}\n(patch)\n"
    return shlex.join(given)


def _inner_script(script: str) -> str:
    """The script that a script gives to a shell whole, as in `bash -lc 'ls'`; or the script."""
    found = _INNER.fullmatch(script)
    if found is None:
        return script
    if found["single"] is not None:
        return found["single"]
    return _ESCAPED_IN_DOUBLE.sub(r"\1", found["double"])


def _below(folder: str, effect: ShellEffect) -> ShellEffect:
    if not folder or effect.kind == "patch":
        return msgspec.structs.replace(effect, to=folder) if effect.kind == "patch" else effect
    to = posixpath.join(folder, effect.to) if effect.to else ""
    return msgspec.structs.replace(effect, path=posixpath.join(folder, effect.path), to=to)


def _commands(script: str) -> Iterator[_ShellCommand]:
    """The simple commands of a script, in order, up to the first that is not understood."""
    lines = iter(script.split("\n"))
    count = 0
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        # characters of a line that is taken apart; the text of a here-document is not
        if len(line) > 8192:
            return
        here: list[str] = []
        for mark in _HERE.finditer(line):
            body = _body_of(mark, lines)
            if body is None:
                return
            here.append(body)
        try:
            tokens = _tokens(_HERE.sub(f" {_BODY} ", line))
        except ValueError:  # a quotation over several lines
            return
        # operators after which it is not certain that the next line is done
        if tokens and (
            tokens[-1] in {"||", "|", "|&"} or (tokens[-1] == "&&" and _TESTS & {*tokens})
        ):
            return
        for command in _split(tokens, here):
            if _ends_reading(command):
                return
            count += 1
            if count > 200:
                return
            yield command


def _ends_reading(command: _ShellCommand) -> bool:
    """True if what follows a command may not be done, or not here."""
    first = command.words[0] if command.words else ""
    if first == "exit":  # with another code, it is only done where the script fails
        return command.words[1:2] in ([], ["0"])
    return first in _UNCERTAIN or "(" in first or first.startswith(("}", ")"))


def _body_of(mark: re.Match[str], lines: Iterator[str]) -> str | None:
    """The text of a here-document; None if it does not end, or the shell would expand it."""
    end = mark[2] or mark[3] or mark[4]
    body: list[str] = []
    for line in lines:
        plain = line.lstrip("\t") if mark[1] else line
        if plain == end:
            text = "".join(f"{one}\n" for one in body)
            return None if mark[4] and _EXPANDS.search(text) else text
        body.append(plain)
    return None


def _tokens(line: str) -> list[str]:
    tokens = list(_words(line))
    comment = next((at for at, token in enumerate(tokens) if token.startswith("#")), None)
    return tokens[:comment]


def _words(line: str) -> Iterator[str]:
    """The words and operators of a line, as `shlex` gives them, which looks at each character."""
    word: list[str] = []
    at = 0
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            raise ValueError("the line ends within a quotation")
        at = piece.end()
        if piece["end"] is None:
            quoted = piece["double"]
            if quoted is not None:
                word.append(_ESCAPED.sub(r"\1", quoted))
            else:
                word.append(piece["plain"] or piece["single"] or piece["escaped"] or "")
            continue
        if word:
            yield "".join(word)
            word = []
        if not piece["end"].isspace():
            yield piece["end"]
    if word:
        yield "".join(word)


def _split(tokens: Sequence[str], here: list[str]) -> Iterator[_ShellCommand]:
    is_certain = True
    words: list[str] = []
    bodies = iter(here)
    part: list[list[str]] = []
    operators: list[str] = []
    for token in tokens:
        if token in _OPERATORS:
            part.append(words)
            operators.append(token)
            words = []
        else:
            words.append(token)
    part.append(words)
    operators.append("")
    for words, operator, following in zip(part, operators, [*part[1:], []], strict=True):
        may_fail = operator == "||" and following[:1] not in (["exit"], ["return"])
        if words:
            is_done = is_certain and not may_fail and operator not in ("|", "|&")
            yield _command(words, bodies, is_done)
        is_test = operator == "&&" and words[:1] and words[0] in _TESTS
        is_certain = is_certain and not is_test and operator not in ("||", "|", "|&")


def _command(tokens: Sequence[str], bodies: Iterator[str], is_certain: bool) -> _ShellCommand:
    words: list[str] = []
    into: str | None = None
    here: str | None = None
    appends = False
    waiting = ""
    for token in tokens:
        if waiting:
            if waiting in (">", ">>") and words[-1:] != ["2"]:
                into, appends = token, waiting == ">>"
            elif words[-1:] == ["2"]:
                words.pop()
            waiting = ""
        elif token in (">", ">>", "<", ">&", "&>", "<<<"):
            waiting = token
        elif token == _BODY:
            here = next(bodies, None)
        else:
            words.append(token)
    return _ShellCommand(words, into if into != "/dev/null" else None, appends, here, is_certain)


def _effects_of(command: _ShellCommand) -> Iterator[ShellEffect]:
    words, name = command.words, command.words[0] if command.words else ""
    paths = [word for word in words[1:] if not word.startswith("-")]
    if name in ("rm", "git") and {"--cached", "--dry-run"} & {*words}:
        return
    if not command.is_certain or any(map(_EXPANDS.search, paths)):
        named = () if name == "grep" else _named(command)
        yield from (ShellEffect("change", path) for path in named)
    elif name in ("apply_patch", "applypatch") and (command.here or len(words) == 2):
        yield ShellEffect("patch", "", command.here or words[1])
    elif command.into is not None:
        if not _EXPANDS.search(command.into):
            yield _written(command, name, paths)
    elif name == "tee" and command.here is not None and len(paths) == 1:
        yield ShellEffect("append" if "-a" in words else "write", paths[0], command.here)
    elif name == "git" and words[1:2] == ["mv"]:
        yield from _moved(paths[1:])
    elif name == "mv" and all(word in ("-f", "-v", "--") for word in words if word[:1] == "-"):
        yield from _moved(paths)
    elif name == "rm" or (name == "git" and words[1:2] == ["rm"]):
        yield from (ShellEffect("delete", path) for path in paths[name == "git" :])
    elif name == "git" and words[1:2] and words[1] in _GIT_CHANGERS:
        yield from (ShellEffect("change", path) for path in paths[1:])
    elif name == "cat" and len(words) == 2 and command.here is None:
        yield ShellEffect("show", words[1])
    elif name == "sed" and words[1:2] == ["-n"] and len(words) == 4:
        if (lines := _SHOWN.fullmatch(words[2])) is not None:
            yield ShellEffect("show", words[3], first=int(lines[1]), last=int(lines[2]))
    elif name in _CHANGERS:
        yield from (ShellEffect("change", path) for path in _named(command))


def _named(command: _ShellCommand) -> list[str]:
    """The files that a command of which little is certain may change."""
    if command.into is not None:
        return [*_known([command.into])]
    name, words = command.words[0] if command.words else "", command.words[1:]
    if name in _OF_SCRIPTS:
        return [*_known(_edited_in_place(words))]
    if name in _CHANGERS | {"mv", "rm", "tee", "git"}:
        return [word for word in _known(words) if not word.startswith("-")]
    return []


_OF_SCRIPTS: Final = frozenset({"sed", "perl"})
_IN_PLACE: Final = re.compile(r"--in-place|-[0-9A-Za-z]*i")
_SCRIPT_FOLLOWS: Final = re.compile(r"-[0-9A-Za-z]*[ef]|--expression|--file")


def _edited_in_place(words: Sequence[str]) -> list[str]:
    """The files that `sed` or `perl` changes, given the words after its name."""
    files: list[str] = []
    has_script = is_in_place = follows = False
    for word in filter(None, words):  # macOS has `-i ''`
        if follows:
            follows = False
        elif word.startswith("-"):
            is_in_place = is_in_place or _IN_PLACE.match(word) is not None
            follows = _SCRIPT_FOLLOWS.fullmatch(word) is not None
            has_script = has_script or follows or word.startswith(("--expression=", "--file="))
        else:
            files.append(word)
    return files[0 if has_script else 1 :] if is_in_place else []


def _known(words: Iterable[str]) -> Iterator[str]:
    """The words in which the shell replaces nothing by the value of a variable or a command."""
    is_within = False
    for word in words:
        is_within = is_within or "$(" in word
        if not (is_within or "$" in word or "`" in word):
            yield word
        is_within = is_within and ")" not in word


def _written(command: _ShellCommand, name: str, paths: Sequence[str]) -> ShellEffect:
    """The effect of a command whose output goes into a file."""
    into = command.into or ""
    kind: Effect = "append" if command.appends else "write"
    if name == "cat" and not paths and command.here is not None:
        return ShellEffect(kind, into, command.here)
    is_plain = not any(_EXPANDS.search(w) or _PATTERN.search(w) for w in command.words)
    if name == "echo" and is_plain and not command.words[-1].isdigit():
        said = command.words[1:]
        if said[:1] == ["-n"]:
            return ShellEffect(kind, into, " ".join(said[1:]))
        if not said or not said[0].startswith("-"):
            return ShellEffect(kind, into, " ".join(said) + "\n")
    if name in (":", "true", "") and not paths:
        return ShellEffect(kind, into, "")
    return ShellEffect("change", into)


def _moved(paths: Sequence[str]) -> Iterator[ShellEffect]:
    if len(paths) == 2:
        yield ShellEffect("move", paths[0], to=paths[1])
    else:
        yield from (ShellEffect("change", path) for path in paths)


_ASKS: Final = re.compile(r"\bgit\b[^\n|;&]{0,400}?\b(?:commit|merge|cherry-pick|revert|am)\b")
_TOLD: Final = re.compile(
    r"^\[(?:[^\[\]\n ]{1,250}|detached HEAD)(?: \(root-commit\))? ([0-9a-f]{7,40})\] (.{1,300})",
    re.MULTILINE,
)


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """A commit: the start of its hash, and the first line of its message."""

    hash: str
    subject: str


def commits_told(script: str, output: str) -> Iterator[Commit]:
    """The commits that a script made, in order, if git printed them."""
    if _ASKS.search(script):
        yield from (Commit(*found.groups()) for found in _TOLD.finditer(output))
