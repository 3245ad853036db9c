"""Adapters: sessions as the stores of agent SDKs, one module for each SDK.

A module is imported only by whoever uses its SDK, which is an extra of its name.

Invariants: what an SDK stores is a normal session, and the SDK gets back what it gave; an adapter
holds nothing that is not in the files, except caches.
"""
