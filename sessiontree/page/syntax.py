"""Syntax: the colours of code, in the languages that agents write.

A session holds the code and names its language, so the time must not depend on what they are. The
lexers of Pygments for Python, JavaScript, TypeScript, CSS and C# take time in the square of the
length of some texts; here one short regular expression a language finds what the page colours.

Invariants: the time is proportional to the length of the text, because each alternative of an
expression takes all that it reads, or fails within a few characters; colours change no character.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from markupsafe import Markup, escape

_KEYWORD, _STRING, _COMMENT, _NUMBER, _NAME = "k", "s", "c", "m", "n"
"""Classes of elements, and groups of the expressions."""

_WORD: Final = "w"
"""A group; the word decides about the class."""

_CONSTANTS: Final = frozenset(
    {"true", "false", "null", "None", "True", "False", "nil", "undefined", "NULL", "nullptr", "NaN"}
)
_DEFINING: Final = frozenset(
    {
        *("def", "class", "function", "func", "fn", "fun", "struct", "enum", "trait", "interface"),
        *("type", "module", "object", "protocol", "contract", "defp", "defmodule", "defn", "macro"),
    }
)
"""The keywords before a name that they define."""

_COMMENTS: Final = {
    "/*": r"/\*[\s\S]*?(?:\*/|\Z)",
    "<!--": r"<!--[\s\S]*?(?:-->|\Z)",
    "<#": r"<#[\s\S]*?(?:\#>|\Z)",
    "#=": r"\#=[\s\S]*?(?:=\#|\Z)",
    "--[[": r"--\[\[[\s\S]*?(?:\]\]|\Z)",
    "{-": r"\{-[\s\S]*?(?:-\}|\Z)",
    "(*": r"\(\*[\s\S]*?(?:\*\)|\Z)",
    "#": r"(?<![^\s;(){}\[\],])\#[^\n]*+",  # not in `$#` or `a#b`
    "//": r"//[^\n]*+",
    "--": r"--[^\n]*+",
    ";": r";[^\n]*+",
    "%": r"%[^\n]*+",
}
_STRINGS: Final = {
    '"""': r'"""[\s\S]*?(?:"""|\Z)',
    "'''": r"'''[\s\S]*?(?:'''|\Z)",
    '"': r'"[^"\\\n]*+(?:\\[\s\S][^"\\\n]*+)*+"?',
    "'": r"'[^'\\\n]*+(?:\\[\s\S][^'\\\n]*+)*+'?",
    "`": r"`[^`\\]*+(?:\\[\s\S][^`\\]*+)*+`?",
    "'x'": r"'(?:[^'\\\n]|\\[^\n][^'\n]{0,8})'",  # a character, beside lifetimes and labels
    "=": r"""(?<==)(?:"[^"]*+"?|'[^']*+'?)""",  # the value of an attribute
}
_DIGITS: Final = r"\d[\w.]*+"
_TAG: Final = r"</?[A-Za-z][\w:.-]*+"


class _Syntax(NamedTuple):
    """A language: how its comments and strings begin, and its keywords."""

    comments: str
    quotes: str
    keywords: str = ""
    within: str = ""  # what words have beside letters, digits and `_`, in a class of an expression
    keys: str = ""  # what follows a word or a string that is a key
    any_case: bool = False  # of keywords
    tags: bool = False  # it is markup, which has tags instead of words

    def pattern(self) -> str:
        """The expression that finds what may have a colour."""
        comments = "|".join(_COMMENTS[one] for one in self.comments.split())
        strings = "|".join(_STRINGS[one] for one in self.quotes.split())
        quoted = f"(?P<{_COMMENT}>{comments})|(?P<{_STRING}>{strings})"
        if self.tags:
            return f"{quoted}|(?P<{_NAME}>{_TAG})"
        return f"{quoted}|(?P<{_WORD}>[^\\W\\d][\\w{self.within}]*+)|(?P<{_NUMBER}>{_DIGITS})"


_C_LIKE: Final = (
    "if else for while do switch case default break continue return goto sizeof static const struct"
    " enum union typedef extern volatile register inline void int char long short float double"
    " unsigned signed bool"
)
_JAVA_LIKE: Final = (
    "if else for while do switch case default break continue return try catch finally throw throws"
    " new class interface enum extends implements import package public private protected static"
    " final abstract void int long short byte char float double boolean this super instanceof"
    " synchronized var record sealed"
)
_SCRIPT: Final = (
    "if else for while do switch case default break continue return try catch finally throw new"
    " class extends import export from as function const let var async await yield typeof"
    " instanceof in of delete this super static get set"
)

_SYNTAXES: Final = {
    "python py python3 py3 pyi pycon starlark bazel": _Syntax(
        "#",
        "\"\"\" ''' \" '",
        "and as assert async await break case class continue def del elif else except finally for"
        " from global if import in is lambda match nonlocal not or pass raise return try while with"
        " yield",
    ),
    "javascript js jsx mjs cjs node": _Syntax("/* //", "\" ' `", _SCRIPT),
    "typescript ts tsx mts": _Syntax(
        "/* //",
        "\" ' `",
        f"{_SCRIPT} interface type enum namespace declare readonly implements private public"
        " protected abstract keyof is satisfies string number boolean any unknown never void",
    ),
    "json jsonc json5 jsonl geojson": _Syntax("/* //", "\" '", keys=":"),
    "bash sh shell zsh ksh console shell-session shellsession sh-session": _Syntax(
        "#",
        "\" '",
        "if then else elif fi for while until do done case esac in function return export local"
        " readonly declare set unset source exit shift trap sudo cd echo",
        within="-",
    ),
    "powershell ps1 pwsh posh": _Syntax(
        "<# #",
        "\" '",
        "if else elseif for foreach while do switch break continue return function param begin"
        " process end try catch finally throw in filter class enum using",
        within="-",
        any_case=True,
    ),
    "c h": _Syntax("/* //", "\" '", _C_LIKE),
    "cpp c++ cc cxx hpp cuda": _Syntax(
        "/* //",
        "\" '",
        f"{_C_LIKE} auto class namespace template typename using public private protected virtual"
        " override final new delete this try catch throw constexpr noexcept operator friend"
        " explicit mutable concept requires co_await co_return",
    ),
    "java": _Syntax("/* //", '""" " \'', _JAVA_LIKE),
    "kotlin kt kts": _Syntax(
        "/* //",
        '""" " \'',
        "if else for while do when break continue return try catch finally throw class interface"
        " object fun val var import package public private protected internal override open"
        " abstract data sealed enum companion suspend is as in by this super",
    ),
    "scala": _Syntax(
        "/* //",
        '""" " \'x\'',
        "if else for while do match case return try catch finally throw class trait object extends"
        " with def val var import package private protected override sealed abstract final implicit"
        " given using lazy new type enum then yield this super",
    ),
    "groovy gradle": _Syntax("/* //", "\"\"\" ''' \" '", f"{_JAVA_LIKE} def in as"),
    "csharp cs c#": _Syntax(
        "/* //",
        "\" '",
        f"{_JAVA_LIKE} namespace using struct string object decimal bool get set async await"
        " override virtual readonly ref out in is as delegate event foreach where partial internal"
        " const base lock params",
    ),
    "go golang": _Syntax(
        "/* //",
        "\" ' `",
        "break case chan const continue default defer else fallthrough for func go goto if import"
        " interface map package range return select struct switch type var",
    ),
    "rust rs": _Syntax(
        "/* //",
        "\" 'x'",
        "as async await break const continue crate dyn else enum extern fn for if impl in let loop"
        " match mod move mut pub ref return self Self static struct super trait type unsafe use"
        " where while",
    ),
    "swift": _Syntax(
        "/* //",
        '""" "',
        "if else for while repeat switch case default break continue return guard defer do try"
        " catch throw throws func class struct enum protocol extension let var import public"
        " private internal fileprivate open static override init self super in is as where async"
        " await actor some any",
    ),
    "dart": _Syntax("/* //", "\"\"\" ''' \" '", f"{_JAVA_LIKE} {_SCRIPT} late required with mixin"),
    "php": _Syntax(
        "/* // #",
        "\" '",
        "if else elseif for foreach while do switch case default break continue return try catch"
        " finally throw new class interface trait enum extends implements function fn use namespace"
        " public private protected static final abstract const echo print as match global require"
        " require_once include readonly",
    ),
    "ruby rb rake gemfile": _Syntax(
        "#",
        "\" '",
        "if elsif else unless case when then for while until do end def class module return yield"
        " begin rescue ensure raise next break redo retry self super and or not in require include"
        " extend attr_accessor attr_reader lambda proc",
    ),
    "perl pl": _Syntax(
        "#",
        "\" '",
        "if elsif else unless for foreach while until do sub return my our local use no package"
        " require last next redo and or not eq ne lt gt le ge cmp",
    ),
    "lua": _Syntax(
        "--[[ --",
        "\" '",
        "and break do else elseif end for function goto if in local not or repeat return then until"
        " while",
    ),
    "r": _Syntax("#", "\" '", "if else for while repeat function return next break in library"),
    "julia jl": _Syntax(
        "#= #",
        '""" " \'x\'',
        "if elseif else for while do end function return struct mutable module using import export"
        " const let local global begin try catch finally macro where in abstract type",
    ),
    "elixir ex exs": _Syntax(
        "#",
        '""" " \'',
        "def defp defmodule defmacro defstruct defimpl defprotocol do end if else unless case cond"
        " when fn with for try rescue catch after raise import alias require use receive in and or"
        " not",
    ),
    "erlang erl": _Syntax(
        "%", "\" '", "case of end if when fun receive after try catch begin andalso orelse not"
    ),
    "haskell hs": _Syntax(
        "{- --",
        "\" 'x'",
        "case class data deriving do else if import in infix instance let module newtype of then"
        " type where qualified forall",
        within="'",
    ),
    "ocaml ml fsharp fs f#": _Syntax(
        "(* //",
        "\" 'x'",
        "let rec in fun function match with if then else type module open of and begin end for"
        " while do done try raise mutable struct sig val exception new member",
        within="'",
    ),
    "clojure clj cljs edn lisp common-lisp scheme racket elisp emacs-lisp": _Syntax(
        ";",
        '"',
        "def defn defun defmacro defvar fn lambda let let* if when cond do loop recur case setq"
        " define ns require quote",
        within="*+!?<>=/.-",
    ),
    "zig": _Syntax(
        "//",
        "\" 'x'",
        "const var fn pub return if else for while switch break continue struct enum union error"
        " try catch defer errdefer comptime inline export extern test usingnamespace and or",
    ),
    "nim": _Syntax(
        "#",
        '""" " \'',
        "proc func method template macro iterator if elif else case of for while break continue"
        " return let var const type object import from include when block try except finally raise"
        " and or not in is ref",
    ),
    "solidity sol": _Syntax(
        "/* //",
        "\" '",
        "pragma contract interface library function modifier event struct enum mapping if else for"
        " while do return returns public private internal external view pure payable memory storage"
        " calldata require revert emit import using is new uint256 uint address bool string bytes",
    ),
    "sql postgresql postgres mysql sqlite sqlite3 plpgsql tsql": _Syntax(
        "/* --",
        "\" ' `",
        "select from where and or not in is as on join left right inner outer full cross group by"
        " order having limit offset insert into values update set delete create table index view"
        " drop alter add column primary key foreign references unique default constraint union all"
        " distinct case when then else end exists between like with recursive returning begin"
        " commit rollback asc desc if replace function returns language declare grant revoke"
        " explain",
        any_case=True,
    ),
    "graphql gql": _Syntax(
        "#",
        '""" "',
        "query mutation subscription fragment on type input interface union enum scalar schema"
        " extend directive implements",
    ),
    "protobuf proto": _Syntax(
        "/* //",
        "\" '",
        "syntax package import option message enum service rpc returns repeated optional required"
        " oneof map reserved stream string bytes bool int32 int64 uint32 uint64 double float",
    ),
    "terraform hcl tf": _Syntax(
        "/* // #",
        '"',
        "resource data variable output module provider locals terraform for in if dynamic",
        within="-",
        keys="=",
    ),
    "yaml yml": _Syntax("#", "\" '", within="./-", keys=":"),
    "toml ini cfg conf properties dotenv env editorconfig systemd": _Syntax(
        "# ;", "\"\"\" ''' \" '", within=".-", keys="="
    ),
    "css scss sass less": _Syntax(
        "/* //", "\" '", "important media import supports keyframes", within="-", keys=":"
    ),
    "html htm xml svg xhtml vue svelte astro markup": _Syntax("<!--", "=", tags=True),
    "dockerfile docker containerfile": _Syntax(
        "#",
        "\" '",
        "FROM AS RUN CMD ENTRYPOINT COPY ADD ENV ARG WORKDIR EXPOSE VOLUME USER LABEL HEALTHCHECK"
        " SHELL ONBUILD STOPSIGNAL",
        within="-",
    ),
    "makefile make mk": _Syntax(
        "#", "\" '", "ifeq ifneq ifdef ifndef else endif include define endef export", within=".-"
    ),
    "cmake": _Syntax(
        "#",
        '"',
        "if elseif else endif foreach endforeach while function endfunction macro endmacro set"
        " project include add_executable add_library target_link_libraries find_package install",
        any_case=True,
    ),
    "nginx": _Syntax(
        "#", "\" '", "server location upstream http events listen return if proxy_pass"
    ),
    "nix": _Syntax(
        "/* #", '"', "let in with rec inherit if then else import assert or", within="'-"
    ),
}


_BY_NAME: Final = {name: found for names, found in _SYNTAXES.items() for name in names.split()}
NAMES: Final = frozenset(_BY_NAME)
"""The names of the languages that have colours."""


def coloured(text: str, language: str) -> Markup:
    """Code as HTML; without colours if the language is not among `NAMES`."""
    syntax = _BY_NAME.get(language)
    if syntax is None:
        return escape(text)
    parts: list[str] = []
    at = 0
    for start, end, kind in _pieces(text, syntax):
        code = escape(text[start:end])
        parts.append(f'{escape(text[at:start])}<span class="{kind}">{code}</span>')
        at = end
    parts.append(escape(text[at:]))
    return Markup("".join(parts))


def _pieces(text: str, syntax: _Syntax) -> Iterator[tuple[int, int, str]]:
    pattern, keywords = _compiled(syntax)
    name_at = -1  # where a keyword says that a name is defined
    for found in pattern.finditer(text):
        kind, (start, end) = str(found.lastgroup), found.span()
        if kind == _WORD:
            word = found[0].lower() if syntax.any_case else found[0]
            if word in keywords:
                kind = _KEYWORD
                name_at = end + 1 if word in _DEFINING else -1
            elif word in _CONSTANTS:
                kind = _NUMBER
            elif start == name_at:
                kind = _NAME
        if syntax.keys and kind in (_WORD, _STRING):
            following = text[end : end + 2].strip(" ")
            kind = _NAME if following and following[0] in syntax.keys else kind
        if kind != _WORD:
            yield start, end, kind


@functools.cache
def _compiled(syntax: _Syntax) -> tuple[re.Pattern[str], frozenset[str]]:
    return re.compile(syntax.pattern()), frozenset(syntax.keywords.split())
