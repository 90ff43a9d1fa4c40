"""Files stored once by what they contain."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import StoreUnavailable
from tidegate.sessions.blobs import BlobStore


def test_content_comes_back_and_is_stored_once(tmp_path: Path) -> None:
    async def run() -> None:
        blobs = BlobStore(tmp_path)
        first = await blobs.put(b"content")
        assert await blobs.put(b"content") == first
        assert await blobs.put(b"other") != first
        assert await blobs.load(first) == b"content"

    asyncio.run(run())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_what_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        asyncio.run(BlobStore(tmp_path).load("sha256:" + "0" * 64))


def test_a_disk_that_refuses_is_unavailable_and_leaves_no_piece(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        asyncio.run(BlobStore(root).put(b"content"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@given(st.text(max_size=80) | st.just("sha256:../../../../etc/passwd") | st.just("sha256:" + "A" * 64))
def test_only_addresses_of_blobs_name_files(text: str) -> None:
    with pytest.raises(ValueError, match="not a blob address"):
        BlobStore(Path("/blobs")).path(text)
