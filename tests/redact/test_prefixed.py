"""A word of a short prefix and a random value is a key; one of a hash or an id is none."""

from __future__ import annotations

from sessiontree import Redaction
from tests.support.table import for_each

RANDOM = "k7Qz9XvB2mN4pL8wR5tY1cF6hJ3dG0sA"
HEX = "3f9a1c7e5b2d8046f1e3a9c5d7b20846"


@for_each(
    "word, is_key",
    [
        (f"acme_api_{RANDOM}", True),
        (f"acme_{RANDOM}", True),
        (f"call_{RANDOM}", False),
        (f"sess_key_{RANDOM}", True),
        (f"call_sess_{RANDOM}", False),
        (f"acme_key_{HEX[:24]}", True),
        (f"acme_key_{HEX[:23]}", False),
        (f"acme_v1_{HEX[:30]}", True),
        (f"acme_v1_{HEX[:29]}", False),
        (f"acme_main_{HEX[:30]}", True),
        (f"acme_prose_{HEX[:30]}", False),
        (f"sha256_{RANDOM}", False),
        (f"acme_key_{'ab' * 15}", False),
        ("acme_key_123e4567-e89b-42d3-a456-426614174000", True),
        ("acme_id_123e4567-e89b-42d3-a456-426614174000", False),
        (f"acme_key_{'1234567890' * 3}", False),
        ("acme_key_k7qz9xvb2mn4pl8w", False),
        ("acme_key_k7qz9xvb2mn4pl8wr5ty", True),
        ("acme_k7qz9xvb2mn4pl8wr5ty1cf", False),
        ("acme_k7qz9xvb2mn4pl8wr5ty1cf6", True),
        ("acme_key_01ARZ3NDEKTSV4RRFFQ69G5fav", False),
        ("acme_key_01ARZ3NDEKTSV4RRFFQ69G5favA1b", True),
        ("acme_key_the-quick-brown-fox-jumps-over", False),
    ],
)
def test_what_a_word_is_taken_for(word: str, is_key: bool) -> None:
    assert (Redaction().text(f"use {word} here") != f"use {word} here") == is_key, word
