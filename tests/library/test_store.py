"""A store on a real folder: what is made is found again, and nothing is ever lost in a move."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree import SessionTreeWarning, Store
from sessiontree.errors import (
    EntryError,
    NothingToDoError,
    RefError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
    UsageError,
)
from sessiontree.library.root import default_root, file_name
from sessiontree.storage.fs import Disk
from tests.support.faultydisk import FaultyDisk
from tests.support.sessions import by_hand, first_messages, read, said
from tests.support.soak import amount
from tests.support.table import for_each

LARGE = "a text too large for a line " * 2000


def names_below(folder: str | Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if not p.is_dir()}


def test_a_session_is_in_the_folder_of_its_project(store: Store) -> None:
    with store.create(cwd="/home/me/my-app", id="chosen", name="Chat") as session:
        file = Path(str(session.file))
        assert session.header["cwd"] == "/home/me/my-app"
    assert file.parent == Path(store.root, "+home+me+my-app")
    assert file.name.endswith("Z_chosen.jsonl")
    assert ":" not in file.name
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_the_current_directory_is_the_project_unless_another_is_named(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said(store, "here")
    said(store, "there", cwd="/elsewhere")
    assert [one.first_message for one in store.list(cwd=".")] == ["here"]
    assert [one.first_message for one in store.list(cwd="/elsewhere/../elsewhere/")] == ["there"]
    assert first_messages(store) == {"here", "there"}


def test_the_default_root_is_the_users_or_the_one_that_the_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path))
    assert Store().root == str(tmp_path)
    monkeypatch.setenv("SESSIONTREE_HOME", "~/kept")
    assert Store().root == os.path.expanduser("~/kept")
    for unset in ("", None):
        monkeypatch.delenv("SESSIONTREE_HOME", raising=False)
        if unset is not None:
            monkeypatch.setenv("SESSIONTREE_HOME", unset)
        assert Store().root == default_root()
        assert "sessiontree" in default_root()
        assert not default_root().startswith(str(tmp_path))


@for_each("id", ["a/b", "../../up", ".", "x" * 500, "日本語", "a:b*c?", "~", "é\n"])
def test_any_id_makes_a_file_in_its_folder(store: Store, id: str) -> None:
    with store.create(cwd="/p", id=id) as session:
        assert os.path.dirname(str(session.file)) == store.project_dir("/p")
    assert store.find(id).id == id


names = st.text(
    st.characters(
        categories=("L", "M", "N", "P", "S", "Zs", "Cn"), include_characters="\u200c\u200d"
    ),
    min_size=1,
    max_size=60,
)


@settings(deadline=None, max_examples=amount(25), suppress_health_check=list(HealthCheck))
@given(names.filter(lambda name: name.strip()), names)
def test_names_and_folders_in_any_script_are_found(tmp_path: Path, name: str, folder: str) -> None:
    store = Store(tmp_path / str(len(os.listdir(tmp_path))))
    cwd = "/" + folder.replace("/", "∕").strip(".")
    with store.create(cwd=cwd, name=name, durability="os") as session:
        assert [one.id for one in store.list(cwd=cwd)] == [session.id]
        assert store.find(name, cwd=cwd).file == session.file
        assert store.find(name).cwd == os.path.abspath(cwd)


def test_a_file_dropped_in_by_hand_is_listed_at_once(store: Store) -> None:
    said(store, "made", cwd="/p")
    by_hand(Path(store.project_dir("/p"), "copied from elsewhere.jsonl"), "dropped", cwd="/other")
    by_hand(Path(store.root, "loose.jsonl"), "loose", id="loose-one", cwd="/other")
    assert first_messages(store) == {"made", "dropped", "loose"}
    assert {one.first_message for one in store.list(cwd="/p")} == {"made", "dropped"}
    assert store.find("by-hand").cwd == "/p"  # the folder is the truth
    assert store.find("loose-one").cwd == "/other"


def test_the_session_written_to_last_is_listed_first(store: Store) -> None:
    folder = Path(store.project_dir("/p"))
    for number, text in enumerate(("one", "two", "three")):
        file = by_hand(folder / f"{text}.jsonl", text, id=f"the-{text}")
        os.utime(file, (0, number))
    assert [one.first_message for one in store.list()] == ["three", "two", "one"]
    with store.open("the-one", durability="os") as session:
        session.append_message({"role": "user", "content": "again"})
    assert [one.first_message for one in store.list()] == ["one", "three", "two"]
    latest = store.latest()
    assert latest is not None
    assert latest.id == "the-one"
    with store.open("latest", readonly=True) as found:
        assert found.id == "the-one"


def test_an_empty_store_has_nothing_and_makes_nothing(store: Store) -> None:
    assert store.list() == []
    assert store.latest() is None
    assert store.trashed() == []
    for ref in ("latest", "any-id"):
        with pytest.raises(RefError):
            store.open(ref)
    assert not os.path.exists(store.root)


def test_a_session_is_opened_by_id_prefix_and_name(store: Store) -> None:
    store.create(id="abcd-1", name="First", cwd="/p").close()
    store.create(id="abcd-2", name="Second", cwd="/q").close()
    for ref, id in (("abcd-1", "abcd-1"), ("Second", "abcd-2")):
        with store.open(ref, readonly=True) as session:
            assert session.id == id
    assert store.find("abcd", cwd="/q").id == "abcd-2"
    with pytest.raises(RefError, match="ambiguous") as caught:
        store.find("abcd")
    assert set(caught.value.candidates) == {"abcd-1", "abcd-2"}
    for ref in ("abc", "First", "nothing like it"):
        with pytest.raises(RefError):
            store.find(ref, cwd="/q")


def test_a_whole_id_counts_before_a_prefix_and_before_a_name(store: Store) -> None:
    for id, name in (("same", None), ("same-and-more", "same")):
        store.create(id=id, name=name, cwd="/p").close()
    assert store.find("same").id == "same"


def test_a_name_buried_in_the_middle_of_a_large_file_is_found(store: Store) -> None:
    with store.create(name="Old", durability="os", spill_over=None, cwd="/p") as session:
        session.append_message({"role": "user", "content": LARGE})
        session.rename("New")
        session.append_message({"role": "user", "content": LARGE})
        assert store.find("New").id == session.id
        with pytest.raises(RefError):  # which is what a list, from head and tail, would say
            store.find("Old")


def test_a_copy_beside_its_original_is_ambiguous_and_named(store: Store) -> None:
    file = Path(said(store, "hello", id="twice"))
    file.with_name("copy.jsonl").write_bytes(file.read_bytes())
    with pytest.raises(RefError, match=r"copy\.jsonl.*give the path of the file") as refusal:
        store.find("twice")
    assert set(refusal.value.candidates) == {str(file), str(file.with_name("copy.jsonl"))}


def test_a_file_that_cannot_be_listed_is_one_warning_and_hides_nothing(store: Store) -> None:
    said(store, "hello", cwd="/p")
    Path(store.project_dir("/p"), "bad.jsonl").touch()
    with pytest.warns(SessionTreeWarning, match=r"bad\.jsonl") as caught:
        assert len(store.list()) == 1
    assert len(caught) == 1
    problems: list[str] = []
    assert len(store.list(report=problems.append)) == 1
    assert len(problems) == 1
    Path(store.project_dir("/p"), "folder.jsonl").mkdir()
    with pytest.warns(SessionTreeWarning, match=r"folder\.jsonl"):
        paths = store.paths()
    assert os.path.basename(paths[0]) == "bad.jsonl"  # the latest name first
    assert len(paths) == 2


def full_session(store: Store, cwd: str, id: str) -> Path:
    """A session with all that may lie beside one."""
    with store.create(cwd=cwd, id=id, durability="os") as session:
        session.append_message({"role": "user", "content": LARGE})
    file = Path(str(session.file))
    for suffix in (".v1", ".archive-2026-01-01", ".damaged-x"):
        Path(f"{file}{suffix}").write_text(suffix)
    return file


def assert_is_whole(file: str) -> None:
    assert read(file) == [LARGE]
    here = {name[len(os.path.basename(file)) :] for name in os.listdir(os.path.dirname(file))}
    assert {"", ".blobs", ".lock", ".v1", ".archive-2026-01-01", ".damaged-x"} <= here


def test_a_renamed_project_keeps_its_sessions(store: Store) -> None:
    full_session(store, "/old", "one")
    before = names_below(store.project_dir("/old"))
    assert store.move_project("/old", "/new") == 1
    assert store.list(cwd="/old") == []
    assert names_below(store.project_dir("/new")) == before
    found = store.find("one", cwd="/new")
    assert found.cwd == "/new"
    assert_is_whole(found.file)


def test_two_projects_become_one_and_nothing_is_overwritten(store: Store) -> None:
    full_session(store, "/old", "one")
    full_session(store, "/new", "two")
    by_hand(Path(store.project_dir("/old"), "deep", "er.jsonl"), "deeper", id="three")
    assert store.move_project("/old", "/new") == 2
    assert {one.id for one in store.list(cwd="/new")} == {"one", "two", "three"}
    for id in ("one", "two"):
        assert_is_whole(store.find(id).file)
    assert not [name for name in names_below(store.project_dir("/old")) if ".jsonl" in name]


def test_a_taken_name_stops_the_move_and_both_stay(store: Store) -> None:
    for cwd in ("/old", "/new"):
        by_hand(Path(store.project_dir(cwd), "same.jsonl"), f"from {cwd}", id=cwd)
    with pytest.raises(SessionExistsError, match=r"same\.jsonl"):
        store.move_project("/old", "/new")
    assert first_messages(store) == {"from /old", "from /new"}


@pytest.mark.parametrize("sidecar", [".blobs/somebody's", ".v1/x", ".archive-2026-01-01/x"])
def test_a_taken_sidecar_stops_the_move_before_anything_moved(store: Store, sidecar: str) -> None:
    file = full_session(store, "/old", "one")
    said(store, "two", cwd="/new")
    taken = Path(store.project_dir("/new"), f"{file.name}{sidecar}")
    taken.parent.mkdir()
    taken.touch()
    disk = FaultyDisk()
    disk.arm()
    with pytest.raises(SessionExistsError):
        Store(store.root, fs=disk).move_project("/old", "/new")
    moved = [name for kind, name in disk.calls if kind in ("link", "replace")]
    assert [name for name in moved if name.endswith(".jsonl")] == []
    assert_is_whole(str(file))


def test_a_move_cut_short_is_finished_by_moving_again(store: Store) -> None:
    file = full_session(store, "/old", "one")
    said(store, "two", cwd="/new")
    os.link(file, Path(store.project_dir("/new"), file.name))  # as a kill in the middle leaves it
    assert {one.id for one in store.list()} >= {"one"}
    store.move_project("/old", "/new")
    assert_is_whole(store.find("one").file)
    assert not file.exists()


def test_a_project_without_sessions_or_the_same_is_nothing_to_move(store: Store) -> None:
    said(store, "hello", cwd="/p")
    for old, new in (("/nothing", "/new"), ("/p", "/p/../p")):
        with pytest.raises(NothingToDoError):
            store.move_project(old, new)
    assert first_messages(store) == {"hello"}
    nowhere = Store(f"{store.root}-none")
    with pytest.raises(NothingToDoError, match="there is no folder"):
        nowhere.move_project("/p", "/q")
    assert not os.path.exists(nowhere.root)


@pytest.mark.slow
def test_a_session_that_a_writer_holds_is_neither_moved_nor_trashed(store: Store) -> None:
    with store.create(cwd="/p", exclusive=True, id="held-one") as session:
        with pytest.raises(SessionBusyError, match="held by"):
            store.move_project("/p", "/q")
        with pytest.raises(SessionBusyError):
            store.trash("held-one")
        session.append_message({"role": "user", "content": "still here"})
    assert read(str(session.file)) == ["still here"]


def test_an_open_session_says_that_its_file_was_moved_and_loses_nothing(store: Store) -> None:
    with store.create(cwd="/p") as session:
        session.append_message({"role": "user", "content": "before"})
        store.move_project("/p", "/q")
        with pytest.raises(SessionNotFoundError):
            session.append_message({"role": "user", "content": "after"})
    assert read(store.list(cwd="/q")[0].file) == ["before"]


def test_a_trashed_session_is_restored_whole_to_where_it_was(store: Store) -> None:
    file = str(full_session(store, "/p", "one"))
    said(store, "stays", cwd="/p")
    before = names_below(store.root)
    thrown = store.trash("one")
    assert first_messages(store) == {"stays"}
    assert [one.id for one in store.trashed()] == ["one"]
    assert_is_whole(thrown)
    assert store.restore("one") == file
    assert_is_whole(file)
    assert names_below(store.root) == before
    assert store.trashed() == []


def test_a_session_can_be_trashed_by_its_path_and_again(store: Store) -> None:
    file = said(store, "hello", cwd="/p")
    content = Path(file).read_bytes()
    first = store.trash(file)
    Path(file).write_bytes(content)
    second = store.trash(file)
    assert len(store.trashed()) == 2
    assert store.restore(second) == file
    with pytest.raises(SessionExistsError):
        store.restore(first)
    assert Path(first).read_bytes() == content
    assert first_messages(store) == {"hello"}


def test_what_cannot_be_opened_is_restored_without_a_word_of_blobs(store: Store) -> None:
    file = said(store, "hello", cwd="/p", id="one")
    thrown = store.trash("one")
    Path(thrown).write_text("no session")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.restore(thrown) == file


def test_nothing_outside_the_store_is_trashed_or_restored(store: Store, tmp_path: Path) -> None:
    outside = by_hand(tmp_path / "outside.jsonl", "hello")
    inside = said(store, "hello")
    thrown = store.trash(said(store, "other"))
    for file in (str(outside), thrown):
        with pytest.raises(UsageError):
            store.trash(file)
    for file in (str(outside), inside):
        with pytest.raises(UsageError):
            store.restore(file)
    with pytest.raises(StorageError):
        store.trash(inside + "x.jsonl")
    assert outside.exists()


def test_a_session_named_like_a_sidecar_of_another_stays(store: Store) -> None:
    folder = Path(store.project_dir("/p"))
    by_hand(folder / "a.jsonl", "a", id="aaaa")
    by_hand(folder / "a.jsonl.jsonl", "b", id="bbbb")
    (folder / "a.jsonl.jsonl.v1").touch()
    store.trash("aaaa")
    left = {name for name in os.listdir(folder) if "lock" not in name}
    assert left == {"a.jsonl.jsonl", "a.jsonl.jsonl.v1"}


def test_what_is_compressed_beside_a_session_is_a_session_of_its_own(store: Store) -> None:
    file = by_hand(Path(store.project_dir("/p"), "a.jsonl"), "a", id="aaaa")
    for name in ("a.jsonl.zst", "a.jsonl.zst.lock"):
        file.with_name(name).write_bytes(b"another's")
    trashed = store.trash(str(file))
    assert file.with_name("a.jsonl.zst").read_bytes() == b"another's"
    assert file.with_name("a.jsonl.zst.lock").exists()
    assert "a.jsonl.zst" not in os.listdir(os.path.dirname(trashed))


def test_the_own_folder_of_a_transcript_is_trashed_and_restored_with_it(store: Store) -> None:
    file = by_hand(Path(store.project_dir("/p"), "c.jsonl"), "c", id="cccc")
    aside = file.with_suffix("") / "subagents" / "agent-1.jsonl"
    aside.parent.mkdir(parents=True)
    aside.write_bytes(b"{}")
    trashed = Path(store.trash(str(file)))
    assert not file.with_suffix("").exists()
    assert (trashed.with_suffix("") / "subagents" / "agent-1.jsonl").read_bytes() == b"{}"
    store.restore(str(trashed))
    assert aside.read_bytes() == b"{}"


@pytest.mark.parametrize("names", [(), ("notes.txt",), ("subagents", "other.jsonl")])
def test_a_folder_that_is_not_a_sessions_alone_stays(store: Store, names: tuple[str, ...]) -> None:
    file = by_hand(Path(store.project_dir("/p"), "d.jsonl"), "d", id="dddd")
    folder = file.with_suffix("")
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"kept")
    store.trash(str(file))
    assert sorted(os.listdir(folder)) == sorted(names)


@pytest.mark.slow
def test_ten_thousand_sessions_are_listed(store: Store) -> None:
    for project in range(10):
        folder = Path(store.project_dir(f"/project/{project}"))
        first = by_hand(folder / "0.jsonl", "hello", id=f"{project}-0")
        text = first.read_text()
        for number in range(1, 1000):
            (folder / f"{number}.jsonl").write_text(text.replace("-0", f"-{number}", 1))
    assert len({one.id for one in store.list()}) == 10_000
    assert len(store.list(cwd="/project/7")) == 1000
    assert store.find("7-777", cwd="/project/7").cwd == "/project/7"


@pytest.mark.parametrize("name", ["می‌خواهم", "👩‍👩‍👧 family", "会議　議事録", "🫨 new in Unicode"])
def test_a_name_is_kept_as_people_spell_it(store: Store, name: str) -> None:
    with store.create(name=name, durability="os") as session:
        assert session.name == name
    assert store.find(name).name == name


@for_each("name", ["", " ", "a\nb", "a\tb", "\x1b[31mred", "\u202eevil", "a\u2028b"])
def test_a_name_that_is_not_one_line_of_text_is_refused(store: Store, name: str) -> None:
    with pytest.raises(EntryError, match="a session's name must be"):
        store.create(name=name)


class Opens(Disk):
    """Keeps the paths that are opened."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: str, flags: int) -> int:
        self.opened.append(path)
        return super().open(path, flags)


def test_a_session_is_found_by_a_whole_id_without_opening_the_others(store: Store) -> None:
    files = [said(store, text, cwd="/p", id=f"id-{text}") for text in ("one", "two", "three")]
    disk = Opens()
    store = Store(store.root, fs=disk)
    assert store.find("id-two").file == files[1]
    assert store.find("id-two", cwd="/p").file == files[1]
    assert disk.opened == [files[1]] * 2


def test_an_id_is_found_in_a_file_that_is_named_for_another(store: Store) -> None:
    file = Path(said(store, "one", id="the-id"))
    renamed = file.rename(file.with_name(file.name.replace("the-id", "another")))
    assert store.find("the-id").file == str(renamed)


@for_each("ref", ["", "\ud83d", "\0", "a/b", "x" * 5000])
def test_a_ref_that_names_no_session_is_a_ref_error(store: Store, ref: str) -> None:
    said(store, "one")
    with pytest.raises(RefError):
        store.find(ref)


def test_latest_is_the_latest_also_where_a_session_has_that_id(store: Store) -> None:
    said(store, "older", cwd="/p", id="latest")
    said(store, "newer", cwd="/p", id="other")
    assert store.find("latest").id == "other"


@for_each(("length", "kept"), [(39, 39), (40, 40), (41, 40)])
def test_a_long_time_is_cut_in_the_name_of_a_file(length: int, kept: int) -> None:
    assert file_name("1" * length, "id") == f"{'1' * kept}_id.jsonl"
    assert file_name(None, "id") == "id.jsonl"
