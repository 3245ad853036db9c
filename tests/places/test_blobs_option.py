"""A session whose blobs version 0.2 kept at another address is named, with the way home."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import sessiontree
from sessiontree import Session, Store
from sessiontree.cli import main
from sessiontree.errors import BlobMissingError, UsageError
from sessiontree.storage.place import without_secret
from tests.places.kinds import opened, put_blob
from tests.support.conversation import user
from tests.support.table import for_each

LONG = "a text too large for a line " * 40
PLACE = "postgresql://me:hush@host/db"


@for_each(
    "options", ["?blobs=s3://k:key@b?secret_access_key=s", "?schema=x&blobs=s3%3A%2F%2Fk%3Akey%40b"]
)
def test_an_address_with_the_option_is_refused_with_the_way_home(
    options: str, tmp_path: Path
) -> None:
    for use in (
        lambda: Session.open(f"{PLACE}/p/s.jsonl{options}", readonly=True),
        lambda: Session.create(f"{PLACE}/p/s.jsonl{options}", cwd="/p"),
        lambda: Store(f"{PLACE}{options}"),
        lambda: sessiontree.copy(f"{PLACE}/p/s.jsonl{options}", tmp_path / "s.jsonl"),
    ):
        with pytest.raises(UsageError, match=r"home with version 0\.2\.0") as raised:
            use()
        assert "postgresql://me@host/db" in str(raised.value)
        assert not [secret for secret in ("hush", "key", "=s") if secret in str(raised.value)]
    done = CliRunner().invoke(main, ["ls", f"{PLACE}{options}"])
    assert done.exit_code == 1
    assert "pip install sessiontree==0.2.0" in done.output
    assert "blobs" not in without_secret(f"{PLACE}/p/s.jsonl{options}")


@for_each("kind", ["memory", "postgres", "objects"])
def test_a_session_with_blobs_at_another_address_is_read_and_names_them(
    kind: str, tmp_path: Path
) -> None:
    with opened(kind, tmp_path) as (place, url):
        file = f"{url}/p/s.jsonl"
        with Session.create(file, cwd="/p", spill_over=100) as session:
            session.append_message(user(LONG))
            session.append_message(user("short"))
            [blob] = session.blobs.blobs()
        place.blobs("p/s.jsonl").open().remove(blob.sha256)
        put_blob(place, "p/s.jsonl", f"at-{'a' * 32}-{'b' * 8}", b"s3://bucket/x")
        with Session.open(file, readonly=True) as session:
            assert len(list(session.entries())) == 3
            assert len(session.context().warnings) == 1
            with pytest.raises(BlobMissingError, match="kept in s3://bucket/x; list its sessions"):
                session.blobs.read(*blob)
        copied = sessiontree.copy(file, tmp_path / "copy.jsonl")
        assert "kept in s3://bucket/x" in str(copied.problems)
        place.move("p/s.jsonl", "q/s.jsonl")
        with (
            Session.open(f"{url}/q/s.jsonl", readonly=True) as session,
            pytest.raises(BlobMissingError, match="s3://bucket/x"),
        ):
            session.blobs.read(*blob)
