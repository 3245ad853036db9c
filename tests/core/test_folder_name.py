"""The name of a project's folder: readable, one a directory, and no other's."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.header import LONGEST, directory_of, encoded, folder_name
from tests.support.table import for_each

parts = st.text(
    st.sampled_from("aAbB-_+%~. é\u0301日\x00\n\udc80\u202e2fE") | st.characters(codec="utf-8"),
    min_size=1,
    max_size=90,
).map(lambda part: part.replace("/", "+").replace("\0", "~"))
directories = st.lists(parts, max_size=6).map(lambda found: "/" + "/".join(found))


@for_each(
    "directory, name",
    [
        ("/", "+"),
        ("/home/me/my-app", "+home+me+my-app"),
        ("/srv/a+b~c%20", "+srv+a%2bb%7ec%2520"),
        ("/home/me/two words", "+home+me+two words"),
    ],
)
def test_a_plain_path_is_read_off_its_name(directory: str, name: str) -> None:
    assert folder_name(directory) == name
    assert directory_of(name) == directory


@pytest.mark.slow
@settings(deadline=None)
@given(directories, directories)
def test_two_directories_never_share_a_name(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)


@settings(deadline=None)
@given(directories)
def test_nor_where_case_and_normal_form_count_for_nothing(directory: str) -> None:
    def seen(name: str) -> str:
        return unicodedata.normalize("NFKD", name).casefold()

    others = {directory.lower(), directory.upper(), directory.swapcase()}
    others |= {unicodedata.normalize(form, directory) for form in ("NFC", "NFD")}
    for other in others - {directory}:
        assert seen(folder_name(other)) != seen(folder_name(directory))


@settings(deadline=None)
@given(directories)
def test_any_system_takes_the_name(directory: str) -> None:
    name = folder_name(directory)
    assert 0 < len(os.fsencode(name)) <= LONGEST
    assert name.startswith("+")
    assert name.isprintable()
    assert not set(name) & set('/\\<>:"|?*')


@settings(deadline=None)
@given(directories)
def test_a_name_that_is_not_cut_tells_its_directory(directory: str) -> None:
    is_cut = len(encoded(directory).encode()) + 9 > LONGEST
    assert directory_of(folder_name(directory)) == (None if is_cut else directory)


def test_the_name_of_a_long_path_is_as_long_as_it_may_be() -> None:
    for length in (LONGEST - 9, LONGEST - 8, LONGEST, 3 * LONGEST):
        name = folder_name("/" + "x" * (length - 1))
        assert len(name) == (length if length <= LONGEST - 9 else LONGEST)


def test_very_long_paths_that_end_alike_differ() -> None:
    ending = "/deep" * 100
    one, other = folder_name("/a" + ending), folder_name("/b" + ending)
    assert one != other
    assert one[:100] == other[:100]
    assert "deep+deep+deep" in one


@for_each("name", ["project", ".trash", "+home+me~00000000", "+A", "+a%2B", ""])
def test_a_name_that_was_never_given_tells_nothing(name: str) -> None:
    assert directory_of(name) is None
