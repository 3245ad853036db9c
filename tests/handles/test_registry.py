from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle
from sessiontree.errors import (
    HandleCycleError,
    HandleDataError,
    HandleError,
    HandleSchemaError,
    ResolveError,
    ResolverFailedError,
    SessionTreeError,
    TargetRefusedError,
    UnknownHandleError,
    UsageError,
)
from sessiontree.handles.builtin import SessionResolver
from sessiontree.handles.registry import DEEPEST, HandleSchema, MetaField, Registry, ResolverScope
from tests.support.conversation import in_memory, line
from tests.support.conversation import said as said_in_context
from tests.support.plugins import Batching, Plugin, handle, install_plugins, said
from tests.support.table import for_each


def resolve(registry: Registry, wanted: Handle | str) -> ResolvedHandle:
    with ResolverScope(registry) as scope:
        return scope.resolve(wanted)


def resolve_many(registry: Registry, *wanted: Handle | str) -> list[Any]:
    with ResolverScope(registry) as scope:
        return scope.resolve_many(wanted)


def test_a_handle_goes_to_the_resolver_of_its_version() -> None:
    old = Plugin("p", "1.x", resolve=lambda h, s: said("old"))
    new = Plugin("p", ">=2 <4", resolve=lambda h, s: said("new"))
    registry = Registry([old, new])
    wanted = [Handle("p", version, "a") for version in ("1.9.0", "2.0.0", "3.1.4")]
    found = resolve_many(registry, *wanted)
    assert [each.data["content"] for each in found] == ["old", "new", "new"]
    assert [resolve(registry, each).data["content"] for each in wanted] == ["old", "new", "new"]


def test_threads_that_ask_at_once_get_one_default_registry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meeting, built_in = threading.Barrier(2), Registry.built_in

    def built_together() -> Any:
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.2)
        return built_in()

    monkeypatch.setattr(Registry, "_default", None)
    monkeypatch.setattr(Registry, "built_in", built_together)
    with ThreadPoolExecutor(2) as pool:
        one, other = [pool.submit(Registry.default) for _ in range(2)]
    assert one.result() is other.result()


def test_the_latest_registered_goes_first() -> None:
    registry = Registry([Plugin("p")])
    mine = Plugin("p", "1.2.x", resolve=lambda h, s: said("mine"))
    registry.register(mine)
    assert resolve(registry, "p@1.2.0::a").data == said("mine")
    assert resolve(registry, "p@1.3.0::a").data == said("p@1.3.0::a")
    registry.unregister(mine)
    assert resolve(registry, "p@1.2.0::a").data == said("p@1.2.0::a")
    registry.register(Plugin("p", "1.2.x", resolve=lambda h, s: said("second")))
    registry.register(Plugin("p", "1.2.x", resolve=lambda h, s: said("third")))
    assert resolve(registry, "p@1.2.0::a").data == said("third")


@for_each(
    "wanted, told",
    [
        ("cone@1.0.0::a", "unknown plugin 'cone'; registered: blob, file, session"),
        ("blob@2.0.0::sha256:a", "version 2.0.0 of blob; registered: blob@1.x::sha256"),
        ("blob@1.0.0::md5:a", "blob has no method 'md5'; registered: blob@1.x::sha256"),
        ("session@1.0.0::entry:a", "session@2.x::entry, session@2.x::block"),
    ],
)
def test_an_unknown_handle_is_told_what_is_there(wanted: str, told: str) -> None:
    with pytest.raises(UnknownHandleError) as refused:
        resolve(Registry.default(), wanted)
    assert told in str(refused.value)
    assert isinstance(resolve_many(Registry.default(), wanted)[0], UnknownHandleError)


def test_an_empty_registry_knows_nothing() -> None:
    with pytest.raises(UnknownHandleError, match="registered: none"):
        resolve(Registry(), "p@1.0.0::a")


@for_each(
    "wanted",
    [
        "blob@1.0.0::sha256",
        "blob@1.0.0::sha256:00:1:text/plain",
        f"blob@1.0.0::sha256:{'0' * 64}:01:text/plain",
        f"blob@1.0.0::sha256:{'0' * 64}:-1:text/plain",
        f"blob@1.0.0::sha256:{'0' * 64}:1",
        f"blob@1.0.0::sha256:{'0' * 64}:1:text",
        f"blob@1.0.0::sha256:{'0' * 64}:1:text/plain:more",
        "file@1.0.0::path:/etc/passwd",
        "session@2.0.0::entry:id",
        "session@2.0.0::block:id:uuid:x",
        "session@2.0.0::path:id",
        "session@2.0.0::branch:id:name:more",
    ],
)
def test_meta_that_breaks_the_schema_is_refused(wanted: str) -> None:
    registry = Registry.default()
    for refuse in (lambda: resolve(registry, wanted), lambda: registry.check(Handle.parse(wanted))):
        with pytest.raises(HandleSchemaError, match="its form is"):
            refuse()
    assert isinstance(resolve_many(registry, wanted)[0], HandleSchemaError)


def test_what_is_not_known_here_may_be_stored_all_the_same() -> None:
    Registry.default().check(Handle.parse("cone@1.0.0::chat:anything"))


class Notes:
    schemas = (HandleSchema("notes", "line", "1.x", [MetaField("number")], "document"),)

    def resolve(self, handle: Handle, scope: ResolverScope) -> Any:
        return ["first", "second"][int(handle.meta[0])]


def test_a_plugin_is_a_class_of_a_few_lines() -> None:
    registry = Registry([Notes()])
    assert resolve(registry, "notes@1.4.0::line:1").data == "second"


@for_each(
    "wrong",
    [
        object(),
        type("R", (), {"schemas": [], "resolve": print})(),
        type("R", (), {"schemas": ["p"], "resolve": print})(),
        type("R", (), {"schemas": [HandleSchema("p", "m")]})(),
    ],
)
def test_what_is_no_resolver_is_not_registered(wrong: Any) -> None:
    with pytest.raises(UsageError, match="is not a resolver"):
        Registry([wrong])


def test_a_method_of_another_version_is_not_called_unknown() -> None:
    notes = Plugin("notes")
    notes.schemas = [HandleSchema("notes", "line", "1.x"), HandleSchema("notes", "all", "*")]
    found, unknown = resolve_many(Registry([notes]), "notes@2.0.0::line:2", "notes@2.0.0::page")
    assert str(found).startswith("no resolver for version 2.0.0 of notes; registered: notes@1.x")
    assert str(unknown).startswith("notes has no method 'page'")


def test_many_are_resolved_once_each_and_given_in_order() -> None:
    plugin, batching = Plugin("p"), Batching("q", lambda hs, s: [said(str(h)) for h in hs])
    wanted = [handle(key, plugin) for key in (1, 2, 1, 3, 2) for plugin in ("q", "p")]
    found = resolve_many(Registry([plugin, batching]), *wanted)
    assert [each.handle for each in found] == wanted
    assert [each.data["content"] for each in found] == list(map(str, wanted))
    assert plugin.asked == [handle(key) for key in (1, 2, 3)]
    assert batching.batches == [[handle(key, "q") for key in (1, 2, 3)]]
    assert batching.asked == []


def test_what_fails_is_told_by_its_own_error_and_hides_no_other() -> None:
    own = TargetRefusedError("no", "h")

    def pick(wanted: Handle, scope: ResolverScope) -> Any:
        if wanted.method == "b":
            raise own if wanted.meta else KeyError("no such row")
        return said("found")

    found = resolve_many(
        Registry([Plugin("p", resolve=pick)]),
        *("p@1.0.0::a", "p@1.0.0::b", "no handle", "x@1.0.0::a", "p@1.0.0::a:1:2", "p@1.0.0::a:1"),
        "p@1.0.0::b:1",
    )
    kinds = [type(each) for each in found]
    assert kinds[0] is kinds[5] is ResolvedHandle
    assert kinds[1:5] == [ResolverFailedError, HandleError, UnknownHandleError, HandleSchemaError]
    assert "resolver of p failed on p@1.0.0::b: KeyError: 'no such row'" in str(found[1])
    assert isinstance(found[1].__cause__, KeyError)
    assert found[6] is own


@for_each(
    "fails, told",
    [
        (lambda hs, s: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda hs, s: [said("one")], "resolve_many returned 1 results, not 2"),
        (lambda hs, s: None, "TypeError"),
    ],
)
def test_a_batch_that_fails_is_an_error_of_each_handle(fails: Any, told: str) -> None:
    plugin = Batching("p", fails)
    found = resolve_many(Registry([plugin, Plugin("q")]), handle(1), handle(2), "q@1.0.0::a")
    for wanted, one in zip((handle(1), handle(2)), found, strict=False):
        assert isinstance(one, ResolverFailedError)
        assert str(one).startswith(f"the resolver of p failed on {wanted}: ")
        assert told in str(one)
    assert found[2].data == said("q@1.0.0::a")
    assert (len(plugin.batches), plugin.asked) == (1, [])


def test_a_batch_may_give_an_error_for_one() -> None:
    missing = ResolveError("row 2 is gone", "p")
    other = LookupError("row 4 is gone")
    plugin = Batching("p", lambda hs, s: [said("one"), missing, "no message", other])
    found = resolve_many(Registry([plugin]), *map(handle, (1, 2, 3, 4)))
    assert found[0].data == said("one")
    assert found[1] is missing
    assert isinstance(found[2], HandleDataError)
    assert isinstance(found[3], ResolverFailedError)
    assert str(found[3]).endswith("LookupError: row 4 is gone")
    assert found[3].__cause__ is other
    assert plugin.asked == []


@for_each(
    "kind, data, media_type",
    [("binary", b"\0", "application/octet-stream"), ("document", {"a": 1}, "")],
)
def test_data_without_a_type_has_that_of_its_kind(kind: Any, data: Any, media_type: str) -> None:
    registry = Registry([Plugin("p", kind=kind, resolve=lambda h, s: data)])
    found = resolve(registry, "p@1.0.0::a")
    assert (found.kind, found.data, found.media_type or "") == (kind, data, media_type)


@for_each("data", ["text", {"role": "user"}, {"role": "user", "content": [b""]}, None])
def test_data_that_is_not_of_the_kind_is_refused(data: Any) -> None:
    registry = Registry([Plugin("p", resolve=lambda h, s: data)])
    with pytest.raises(HandleDataError, match="::a resolved to"):
        resolve(registry, "p@1.0.0::a")


def test_a_resolver_may_resolve_the_handles_of_others() -> None:
    outer = Plugin("p", resolve=lambda h, s: s.resolve("q@1.0.0::a"))
    found = resolve(Registry([outer, Plugin("q")]), "p@1.0.0::b")
    assert str(found.handle) == "p@1.0.0::b"
    assert found.data == said("q@1.0.0::a")


def test_a_cycle_is_found_and_told() -> None:
    p = Plugin("p", resolve=lambda h, s: s.resolve("q@1.0.0::a"))
    q = Plugin("q", resolve=lambda h, s: s.resolve("p@1.0.0::a"))
    with pytest.raises(HandleCycleError) as refused:
        resolve(Registry([p, q]), "p@1.0.0::a")
    assert "p@1.0.0::a → q@1.0.0::a → p@1.0.0::a" in str(refused.value)
    assert (len(p.asked), len(q.asked)) == (1, 1)


def test_handles_without_end_are_ended() -> None:
    def further(wanted: Handle, scope: ResolverScope) -> Any:
        return scope.resolve(handle(int(wanted.meta[0]) + 1))

    plugin = Plugin("p", resolve=further)
    with pytest.raises(HandleCycleError, match="::a:1 on"):
        resolve(Registry([plugin]), handle(1))
    assert len(plugin.asked) == DEEPEST


def test_batches_without_end_are_ended() -> None:
    def further(handles: list[Handle], scope: ResolverScope) -> Any:
        keys = [int(each.meta[0]) + 2 for each in handles]
        return scope.resolve_many([handle(key) for key in keys])

    plugin = Batching("p", further)
    found = resolve_many(Registry([plugin]), handle(1), handle(2))
    assert len(plugin.batches) == DEEPEST
    assert len(found) == 2


def test_what_two_handles_share_is_no_cycle() -> None:
    end = Handle("p", "1.0.0", "b")
    plugin = Plugin("p", resolve=lambda h, s: said("end") if h == end else s.resolve(end))
    found = resolve_many(Registry([plugin]), handle(1), handle(2))
    assert [each.data for each in found] == [said("end")] * 2


def test_a_scope_without_a_session_or_root_says_what_is_missing() -> None:
    blob = Handle.blob("0" * 64, 1, "image/png")
    for wanted in (blob, Handle.entry("id", "u"), Handle.file("a")):
        with pytest.raises(TargetRefusedError, match="name") as refused:
            resolve(Registry.default(), wanted)
        assert str(wanted) in str(refused.value)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *points: str) -> None:
    """Make a folder a place of installed packages, one of them with these entry points."""
    install_plugins(folder, *points)
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry of the built-in plugins and of a package with good and bad ones."""
    (tmp_path / "some_plugins.py").write_text(
        "from tests.support.plugins import Plugin\n"
        "good = Plugin('good', '1.x')\n"
        "class Second(Plugin):\n    def __init__(self):\n        super().__init__('good', '2.x')\n"
        "wrong = 5\n"
    )
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no licence')\n")
    places = [
        *("good = broken_plugin:good", "good = some_plugins:good", "good = some_plugins:Second"),
        *("bad = broken_plugin:bad", "gone = no_such_module:gone", "wrong = some_plugins:wrong"),
        "other = some_plugins:good",
    ]
    install(tmp_path, monkeypatch, *places)
    return Registry([Plugin("built-in")], plugins=True)


def test_an_installed_plugin_is_loaded_when_it_is_asked_for(installed: Registry) -> None:
    assert resolve(installed, "good@1.5.0::a").data == said("good@1.5.0::a")
    assert resolve(installed, "good@2.0.0::b").data == said("good@2.0.0::b")
    assert [str(error) for error in installed.broken] == [
        "the plugin 'good' cannot be loaded from broken_plugin:good: RuntimeError: no licence; "
        "repair or remove its package"
    ]


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        ("bad", "RuntimeError: no licence"),
        ("gone", "No module named 'no_such_module'"),
        ("wrong", "5 is not a resolver"),
        ("other", "its schemas are of 'good'"),
        ("good", "RuntimeError: no licence"),
    ],
)
def test_a_broken_plugin_is_told_when_it_is_asked_for(
    installed: Registry, plugin: str, told: str
) -> None:
    assert resolve(installed, "built-in@1.0.0::a").data
    assert installed.broken == []
    with pytest.raises(UnknownHandleError, match=told):
        resolve(installed, f"{plugin}@9.0.0::a")
    assert resolve(installed, "good@1.0.0::a").data


def test_the_forms_that_are_there_are_named_before_what_is_broken(installed: Registry) -> None:
    assert "good@1.x::a" in installed.unknown(Handle("good", "9.0.0", "a"))
    assert "no_such_module" in installed.unknown(Handle("gone", "9.0.0", "a"))


def test_what_is_installed_is_named_without_being_loaded(installed: Registry) -> None:
    with pytest.raises(UnknownHandleError, match="bad, built-in, gone, good, other, wrong"):
        resolve(installed, "cone@1.0.0::a")
    assert installed.broken == []


def test_all_schemas_are_listed_and_what_is_broken_beside_them(installed: Registry) -> None:
    names = [schema.name for schema in installed.schemas()]
    assert names == [
        *("built-in@*::a", "built-in@*::b"),
        *("good@1.x::a", "good@1.x::b", "good@2.x::a", "good@2.x::b"),
    ]
    assert len(installed.broken) == 5


def test_an_installed_plugin_never_takes_a_built_in_one_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "p = tests.handles.test_registry:taken")
    registry = Registry([Plugin("p", "1.x")], plugins=True)
    assert resolve(registry, "p@1.0.0::a").data == said("p@1.0.0::a")
    assert resolve(registry, "p@2.0.0::a").data == said("taken")


taken = Plugin("p", resolve=lambda handle, scope: said("taken"))


def test_the_default_registry_is_one_and_finds_what_is_installed() -> None:
    assert Registry.default() is Registry.default()
    assert Registry.default().plugins == ["blob", "file", "session"]


def test_every_error_of_handles_is_one_of_the_package() -> None:
    for error in (HandleSchemaError, UnknownHandleError, HandleCycleError, HandleDataError):
        assert issubclass(error, SessionTreeError)


def hinted(wanted: Handle, scope: ResolverScope) -> Any:
    return said(str(dict(scope.metadata(wanted))))


def hints(session: Session) -> list[str]:
    return [one.resolved.data["content"] for one in session.resolved_path() if one.resolved]


@for_each(
    "plugin",
    [
        Plugin("p", resolve=hinted),
        Batching("p", lambda hs, s: [hinted(h, s) for h in hs], resolve=hinted),
    ],
)
def test_a_resolver_gets_the_metadata_of_the_entry(plugin: Plugin) -> None:
    with in_memory(registry=Registry([plugin, SessionResolver()])) as session:
        for number in (1, 2, 1):
            session.append_handle(handle(7), metadata={"hint": number})
        last = session.append_handle(handle(7))
        session.append_handle(handle(8), metadata={"hint": 8})
        assert hints(session) == [*(f"{{'hint': {n}}}" for n in (1, 2, 1)), "{}", "{'hint': 8}"]
        assert said_in_context(session.context())[:2] == ["{'hint': 1}", "{'hint': 2}"]
        assert session.resolve(handle(7)).data == said("{}")
        pointer = Handle.entry(session.id, session.path()[2].uuid)
        assert session.resolve(pointer).data == said("{'hint': 2}")
        assert session.resolve_many([pointer, str(pointer)])[1] == session.resolve(pointer)
        session.append_handle(Handle.entry(session.id, last.uuid), metadata={"hint": 9})
        assert hints(session)[-1] == "{}"  # what a handle leads to has the metadata of its own


def test_the_metadata_of_the_older_form_is_given_too(tmp_path: Path) -> None:
    older = {"source": "p", "source_version": "1.0.0", "identifier": "x", "metadata": {"a": 1}}
    plugin = Plugin("p", resolve=hinted)
    plugin.schemas = [HandleSchema("p", "item", meta=[MetaField("key")], kind="message")]
    Session.create(tmp_path / "s.jsonl", id="s").close()
    root = json.loads((tmp_path / "s.jsonl").read_text())["uuid"]
    with open(tmp_path / "s.jsonl", "a") as file:
        entry = line("handle", "h", root, handle=older, kind="message", metadata={"b": 2})
        file.write(json.dumps(entry) + "\n")
    with Session.open(tmp_path / "s.jsonl", registry=Registry([plugin])) as session:
        assert hints(session) == ["{'a': 1, 'b': 2}"]
