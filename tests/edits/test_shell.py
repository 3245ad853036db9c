"""What a shell script is told to do to files is what a real shell does to them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

from sessiontree.edits.shell import LONGEST, Commit, ShellEffect, commits_told, effects, script_of
from tests.support.table import for_each

PATCH: Final = "*** Begin Patch\n*** Delete File: a\n*** End Patch"

CERTAIN: Final[dict[str, tuple[str, list[tuple[Any, ...]]]]] = {
    "a here-document": ("cat > a <<'EOF'\none\ntwo\nEOF", [("write", "a", "one\ntwo\n")]),
    "one that is appended": ("cat >> a <<'EOF'\none\nEOF", [("append", "a", "one\n")]),
    "the mark before the file": ("cat <<'EOF' > a\none\nEOF", [("write", "a", "one\n")]),
    "an empty one": ("cat > a <<'EOF'\nEOF", [("write", "a", "")]),
    "quotes of another kind": ('cat > a <<"EOF"\n$x\nEOF', [("write", "a", "$x\n")]),
    "no quotes, and nothing to expand": ("cat > a <<EOF\none\nEOF", [("write", "a", "one\n")]),
    "tabs that do not count": ("cat > a <<-'EOF'\n\tone\n\tEOF", [("write", "a", "one\n")]),
    "tabs that count": ("cat > a <<'EOF'\n\tone\nEOF", [("write", "a", "\tone\n")]),
    "two in one script": (
        "cat > a <<'A'\n1\nA\ncat > b <<'B'\n2\nB",
        [("write", "a", "1\n"), ("write", "b", "2\n")],
    ),
    "tee": ("tee a <<'EOF'\none\nEOF", [("write", "a", "one\n")]),
    "tee to the end": ("tee -a a <<'EOF'\none\nEOF", [("append", "a", "one\n")]),
    "echo": ("echo one  two > a", [("write", "a", "one two\n")]),
    "echo without a line break": ("echo -n one > a", [("write", "a", "one")]),
    "echo of nothing": ("echo > a", [("write", "a", "\n")]),
    "echo to the end": ("echo 'one  two' >> a", [("append", "a", "one  two\n")]),
    "a new empty file": (": > a", [("write", "a", "")]),
    "a move": ("mv f g", [("move", "f", "", "g")]),
    "a move by force": ("mv -f f g", [("move", "f", "", "g")]),
    "a file that is removed": ("rm -f f", [("delete", "f")]),
    "two that are removed": ("rm f d/h", [("delete", "f"), ("delete", "d/h")]),
    "below a folder": ("cd d\necho x > a", [("write", "d/a", "x\n")]),
    "a move below a folder": ("cd d && mv h i", [("move", "d/h", "", "d/i")]),
    "above a folder": ("cd d; cd ..; echo x > a", [("write", "d/../a", "x\n")]),
    "one command after another": (
        "echo x > a && mv a b; rm f",
        [("write", "a", "x\n"), ("move", "a", "", "b"), ("delete", "f")],
    ),
    "a file with the mark of a comment": (
        "echo x > a#b; rm f",
        [("write", "a#b", "x\n"), ("delete", "f")],
    ),
    "a line that is a comment": ("# don't\n  # rm f\necho x > a", [("write", "a", "x\n")]),
    "a folder and a here-document": ("cd d && cat > a <<'E'\nx\nE", [("write", "d/a", "x\n")]),
    "two here-documents in one line": (
        "cat > a <<'A' && cat > b <<'B'\n1\nA\n2\nB",
        [("write", "a", "1\n"), ("write", "b", "2\n")],
    ),
    "a here-document for the second command": (
        "rm f && tee a > /dev/null <<'A'\n1\nA",
        [("delete", "f"), ("write", "a", "1\n")],
    ),
    "an exit where a folder is missing": ("cd d || exit 1\nrm h", [("delete", "d/h")]),
    "one after another over two lines": ("cd d &&\nrm h", [("delete", "d/h")]),
    "a comment": ("echo x > a # > b", [("write", "a", "x\n")]),
    "errors that go elsewhere": ("echo x 2> e > a", [("write", "a", "x\n")]),
}

TOLD: Final[dict[str, tuple[str, list[tuple[Any, ...]]]]] = {
    "a whole file": ("cat f", [("show", "f")]),
    "some lines of a file": ("sed -n 2,9p f", [("show", "f", "", "", 2, 9)]),
    "other words of sed": ("sed -n /x/p f", []),
    "a file that sed changes": ("sed -i s/a/b/ f", [("change", "f")]),
    "a file that sed of macOS changes": ("sed -i '' 's/a/b/g' f", [("change", "f")]),
    "files that sed changes by two scripts": (
        "sed -i.old -e s/a/b/ --expression=s/c/d/ f g",
        [("change", "f"), ("change", "g")],
    ),
    "a file that sed prints": ("sed s/a/b/ f", []),
    "a file that perl changes": ("perl -pi -e s/a/b/ f", [("change", "f")]),
    "a path that only the shell knows": ("cp $(npm root -g)/x $HOME/y f", [("change", "f")]),
    "two files": ("cat f g", []),
    "a move in git": ("git mv f g", [("move", "f", "", "g")]),
    "a removal in git": ("git rm -q f", [("delete", "f")]),
    "a removal from the index alone": ("git rm --cached f", []),
    "a removal on trial": ("git rm --dry-run f", []),
    "a move that may not be done": ("mv -n f g", [("change", "f"), ("change", "g")]),
    "a move into a folder": ("mv -t d f", [("change", "d"), ("change", "f")]),
    "a subshell": ("(cd d && rm h)\n(cd d; echo x > a )\nrm f", []),
    "a function": ("f() {\n  rm f\n}\necho x > a", []),
    "a function by its word": ("function g {\n  rm f\n}", []),
    "what stands behind an exit": ("echo x > a\nexit 0\nrm f", [("write", "a", "x\n")]),
    "an exit that a test may lead to": ("[ -f a ] && exit\nrm f", []),
    "what stands behind a test": ("[ -f a ] && rm f", [("change", "f")]),
    "a test over two lines": ("test -f a &&\nrm f", []),
    "a command that may fail": ("rm f || true", [("change", "f")]),
    "an alternative over two lines": ("true ||\nrm f", []),
    "a pipe over two lines": ("cat f |\ntee a", []),
    "words that are a pattern": ("echo *.py > a", [("change", "a")]),
    "words that are counted": ("echo {1..3} {a,b} > a", [("change", "a")]),
    "a number before the mark": ("echo x 1> a", [("change", "a")]),
    "a name that is put together": ("cat > $d/a <<'E'\nx\nE", []),
    "a file that git restores": ("git checkout -- f", [("change", "f")]),
    "a look by git": ("git diff f", []),
    "git alone": ("git", []),
    "a formatter": ("black -q f g", [("change", "f"), ("change", "g")]),
    "a program that is not known": ("make f", []),
    "several that move": ("mv f g d", [("change", "f"), ("change", "g"), ("change", "d")]),
    "what else is written": ("sort f > a", [("change", "a")]),
    "what cat puts together": ("cat f g > a", [("change", "a")]),
    "echo with an option": ("echo -e 'x' > a", [("change", "a")]),
    "a here-document in a pipe": ("cat <<'E' | sort > a\nx\nE", [("change", "a")]),
    "what stands after a failure": ("true || rm f", [("change", "f")]),
    "what stands after a pipe": ("ls | xargs echo; rm f", [("change", "f")]),
    "grep after a failure": ("true || grep x > a", []),
    "a name that is expanded": ("rm $f g", [("change", "g")]),
    "words that are expanded": ("echo $x > a", [("change", "a")]),
    "a here-document that is expanded": ("cat > a <<E\n$x\nE\nrm f", []),
    "one that does not end": ("cat > a <<'E'\nx", []),
    "a loop": ("rm f\nfor x in a; do rm $x; done\nrm g", [("delete", "f")]),
    "a condition": ("if true; then rm f; fi", []),
    "a quotation over two lines": ("rm f\necho 'a\nb' > g", [("delete", "f")]),
    "a folder that is not certain": ("true || cd d\nrm f", [("delete", "f")]),
    "a patch": (f"apply_patch <<'E'\n{PATCH}\nE", [("patch", "", f"{PATCH}\n")]),
    "a patch below a folder": (
        f"cd d\napplypatch <<'E'\n{PATCH}\nE",
        [("patch", "", f"{PATCH}\n", "d")],
    ),
    "a patch as a word": (f"apply_patch '{PATCH.splitlines()[0]}'", [("patch", "", PATCH[:15])]),
    "a patch that is not there": ("apply_patch", []),
    "nothing": ("", []),
}


def test_a_script_tells_what_it_certainly_does() -> None:
    for name in CERTAIN | TOLD:
        script, expected = (CERTAIN | TOLD)[name]
        assert effects(script) == [ShellEffect(*values) for values in expected], name


@for_each("name", list(CERTAIN))
def test_a_shell_does_what_the_script_tells(name: str, tmp_path: Path) -> None:
    expected, real = tmp_path / "expected", tmp_path / "real"
    for folder in (expected, real):
        (folder / "d").mkdir(parents=True)
        for file in ("a", "f", "d/h"):
            (folder / file).write_text(f"the old {file}\n")
    script = CERTAIN[name][0]
    subprocess.run(["bash", "-c", script], cwd=real, check=True, stdout=subprocess.DEVNULL)
    for effect in effects(script):
        play(expected, effect)
    assert content(real) == content(expected)


def play(folder: Path, effect: ShellEffect) -> None:
    path = folder / effect.path
    if effect.kind in ("write", "append"):
        old = path.read_text() if effect.kind == "append" else ""
        path.write_text(old + effect.text)
    elif effect.kind == "move":
        path.rename(folder / effect.to)
    else:
        assert effect.kind == "delete"
        path.unlink()


def content(folder: Path) -> dict[str, str]:
    """The files and their texts, but for what the shell says of errors."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "e"]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_the_script_of_a_call_is_found_in_each_form() -> None:
    cases: list[tuple[object, str]] = [
        ({"command": "rm f"}, "rm f"),
        ({"cmd": "rm f", "commands": "rm g"}, "rm f"),
        ({"commands": ["rm f", "ls"]}, "rm f\nls"),
        ({"command": ["bash", "-lc", "rm f"]}, "rm f"),
        ({"command": ["/bin/sh", "-c", "rm f"]}, "rm f"),
        ({"command": "bash -lc 'rm f'"}, "rm f"),
        ({"command": '/bin/sh -c "rm \\"f\\""'}, 'rm "f"'),
        ({"command": 'sh -c "rm $f"'}, 'sh -c "rm $f"'),
        ({"command": "bash -c 'rm f' g"}, "bash -c 'rm f' g"),
        ({"command": ["bash", "-l", "f"]}, "bash -l f"),
        ({"command": ["fish", "-c", "rm f"]}, "fish -c 'rm f'"),
        ({"command": ["rm", 5]}, ""),
        ({"command": 5}, ""),
        ({"other": "rm f"}, ""),
        ("rm f", ""),
        ({"command": ["apply_patch", "x"]}, "apply_patch <<'(patch)'\nx\n(patch)\n"),
        ({"command": ["apply_patch"]}, "apply_patch"),
    ]
    for arguments, script in cases:
        assert script_of(arguments) == script


def test_a_script_is_read_up_to_its_limits() -> None:
    assert len(effects("rm f\n" * 201)) == 200
    assert len(effects("rm f\n" + "#" * (LONGEST - 5))) == 1
    assert effects("rm f\n" + "#" * (LONGEST - 4)) == []


def test_what_git_prints_is_told(tmp_path: Path) -> None:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    for number, subject in enumerate(("First [one]", "Second")):
        (tmp_path / "a").write_text(str(number))
        subprocess.run(["git", "add", "a"], cwd=tmp_path, check=True)
        asked = [*words, "commit", "-m", subject]
        done = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True)
        ((made),) = commits_told(" ".join(asked), done.stdout)
        listed = ["git", "log", "-1", "--format=%H"]
        hash = subprocess.run(listed, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert hash.stdout.startswith(made.hash)
        assert made.subject == subject


def test_what_git_did_not_say_is_not_told() -> None:
    cases: list[tuple[str, str, list[Commit]]] = [
        ("git commit -qm x", "", []),
        ("cat log", "[main 1a2b3c4] x", []),
        ("git log", "[main 1a2b3c4] x", []),
        ("git -C sub commit", "[a/b-c 1a2b3c4] x", [Commit("1a2b3c4", "x")]),
        ("git revert HEAD", "[detached HEAD 1a2b3c4] y", [Commit("1a2b3c4", "y")]),
        ("git commit", "[main nothex1] x", []),
        ("git status; echo commit", "[main 1a2b3c4] x", []),
    ]
    for script, output, told in cases:
        assert list(commits_told(script, output)) == told
