from __future__ import annotations

from sessiontree.core.media import is_text, media_type_of, text_in

TEXT = "text/plain"
BYTES = "application/octet-stream"


def test_the_media_type_is_that_of_the_content() -> None:
    cases: list[tuple[bytes, str]] = [
        *((b"\x89PNG\r\n\x1a\n...", "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg")),
        *((b"GIF89a", "image/gif"), (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp")),
        *((b"%PDF-1.7", "application/pdf"), (b"a\0b", BYTES), (b"\xff", BYTES), (b"", TEXT)),
        (b"started\n\xff stopped\n", TEXT),
        ("un \u00e9t\u00e9 chaud".encode("latin-1") * 3, BYTES),  # too much of it is wrong
        ("l'\u00e9t\u00e9 fut long, et il fit chaud".encode("latin-1"), TEXT),
        (b"\x1f\x8b\x08 and words enough \xff", BYTES),
        ("caf\u00e9".encode(), TEXT),
        ("caf\u00e9".encode()[:-1], TEXT),  # the first block of a text, cut anywhere
    ]
    for content, media_type in cases:
        assert media_type_of(content) == media_type


def test_a_name_tells_texts_apart_and_nothing_else() -> None:
    cases: list[tuple[bytes, str, str]] = [
        (b"import x", "text/x-python", "text/x-python"),
        (b"{}", "application/json", "application/json"),
        (b"let x: number", "video/mp2t", TEXT),  # TypeScript, by its name
        (b"no picture", "image/png", TEXT),
        (b"<svg/>", "image/svg+xml", "image/svg+xml"),
        (b"\xff\xd8\xff\xe0", "image/png", "image/jpeg"),
        (b"PK\x03\x04\0", "application/zip", "application/zip"),
    ]
    for content, name, found in cases:
        assert media_type_of(content, name) == found


def test_what_people_read_is_text() -> None:
    assert all(map(is_text, ("text/html", "image/svg+xml", "application/ld+json")))
    assert not any(map(is_text, ("image/png", "application/pdf", "application/jsonp")))


def test_a_few_places_of_a_text_may_not_be_utf_8() -> None:
    cases: list[tuple[bytes, object]] = [
        (b"", ("", 0)),
        ("caf\u00e9 \ufffd".encode(), ("caf\u00e9 \ufffd", 0)),
        (b"0123456789\xff", ("0123456789\ufffd", 1)),
        (
            b"0123456789\xe2\x82 0123456789\xff\xef\xbf\xbd",
            ("0123456789\ufffd 0123456789\ufffd\ufffd", 2),
        ),
        *((content, None) for content in (b"12345678\xff", b"\xff")),
    ]
    for content, found in cases:
        assert text_in(content) == found
