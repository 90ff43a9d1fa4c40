"""Files in both directions, within Telegram's limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fakes.connected_bot import connected
from fakes.event_loop import on_loop
from fakes.fake_telegram import FakeTelegram, Fault
from tidegate.adapters.base import Outbound, TextPart
from tidegate.errors import AdapterUnavailable, DeliveryRefused, DeliveryUnavailable, DeliveryUnknown
from tidegate.events import Address, Attachment, MediaKind

ANN = Address("telegram", "default", "7", None)


def document(size: int | None = None) -> Attachment:
    return Attachment(MediaKind.DOCUMENT, "F", "a.pdf", size=size)


def file_part(path: Path, kind: str = "document", name: str = "", text: TextPart | None = None) -> Outbound:
    return Outbound(ANN, "t", text, file=path, file_kind=kind, file_name=name)


@on_loop
async def test_the_content_of_a_file_is_fetched() -> None:
    content = os.urandom(200_000)
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.add_file("F", content, "documents/my file#1.bin")
        assert await bot.fetch(document(), 1 << 20) == content


@on_loop
async def test_R087_a_file_over_our_limit_is_refused_with_both_sizes() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.add_file("F", b"x", size=9 << 20)
        with pytest.raises(DeliveryRefused, match=r"9.0 MB.*limit is 5 MB"):
            await bot.fetch(document(), 5 << 20)
        with pytest.raises(DeliveryRefused, match=r"9.0 MB.*limit is 5 MB"):
            await bot.fetch(document(9 << 20), 5 << 20)
        assert len(platform.called("getFile")) == 1


@on_loop
async def test_R089_a_file_over_the_platform_limit_names_that_limit() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.add_file("F", b"x", size=22 << 20)
        with pytest.raises(DeliveryRefused, match="20 MB"):
            await bot.fetch(document(), 100 << 20)


@on_loop
async def test_a_file_that_is_larger_than_stated_is_not_read_on() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.add_file("F", b"x" * 300_000, size=10)
        with pytest.raises(DeliveryRefused, match="too large"):
            await bot.fetch(document(), 100_000)


@pytest.mark.parametrize("fault", [Fault(cut="after"), Fault(status=500), Fault(status=502, body=b"<html>")])
@on_loop
async def test_R089_passing_trouble_is_tried_again(fault: Fault) -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.add_file("F", b"content")
        platform.spoil("getFile", fault)
        assert await bot.fetch(document(), 100) == b"content"


@on_loop
async def test_lasting_trouble_is_told_without_the_token() -> None:
    async with FakeTelegram("1:SECRET") as platform, connected(platform) as bot:
        platform.spoil("getFile", Fault(status=500), times=3)
        with pytest.raises(AdapterUnavailable) as raised:
            await bot.fetch(document(), 100)
        assert "SECRET" not in str(raised.value)


@on_loop
async def test_a_file_that_is_gone_is_refused() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        with pytest.raises(DeliveryRefused, match="no longer"):
            await bot.fetch(document(), 100)


@on_loop
async def test_an_own_server_hands_out_only_from_trusted_folders(tmp_path: Path) -> None:
    inside, outside = tmp_path / "files" / "a", tmp_path / "secret"
    inside.parent.mkdir()
    inside.write_bytes(b"ours")
    outside.write_bytes(b"not ours")
    (tmp_path / "files" / "link").symlink_to(outside)
    async with FakeTelegram() as platform:
        async with connected(platform, own_server=True, file_roots=(tmp_path / "files",)) as bot:
            platform.add_file("F", b"", str(inside))
            assert await bot.fetch(document(), 100) == b"ours"
            for path in (outside, tmp_path / "files" / "link", tmp_path / "files" / ".." / "secret"):
                platform.add_file("F", b"", str(path))
                with pytest.raises(DeliveryRefused, match="trustedLocalFileRoots"):
                    await bot.fetch(document(), 100)


@pytest.mark.parametrize(
    ("kind", "name", "method", "field"),
    [
        ("image", "a.png", "sendPhoto", "photo"),
        ("document", "a.pdf", "sendDocument", "document"),
        ("audio", "a.mp3", "sendAudio", "audio"),
        ("voice", "a.ogg", "sendVoice", "voice"),
        ("", "a.bin", "sendDocument", "document"),
    ],
)
@on_loop
async def test_each_sort_of_file_is_sent_as_what_it_is(
    tmp_path: Path, kind: str, name: str, method: str, field: str
) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"\x00content")
    async with FakeTelegram() as platform, connected(platform) as bot:
        caption = TextPart("<b>see</b>", "see")
        message = await bot.send(file_part(path, kind, name, caption))
        (call,) = platform.called(method)
        assert call[field] == (name, b"\x00content")
        assert platform.messages[7, int(message)]["caption"] == "see"


@on_loop
async def test_a_picture_that_is_too_large_for_a_photo_goes_as_a_document(tmp_path: Path) -> None:
    path = tmp_path / "big.png"
    path.write_bytes(b"x" * ((10 << 20) + 1))
    async with FakeTelegram() as platform, connected(platform) as bot:
        await bot.send(file_part(path, "image"))
        assert platform.called("sendDocument")


@on_loop
async def test_a_picture_that_telegram_cannot_show_goes_as_a_document(tmp_path: Path) -> None:
    path = tmp_path / "odd.png"
    path.write_bytes(b"x")
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.fail("sendPhoto", 400, description="Bad Request: PHOTO_INVALID_DIMENSIONS")
        await bot.send(file_part(path, "image"))
        assert platform.called("sendDocument")[0]["document"] == ("odd.png", b"x")


@on_loop
async def test_a_caption_that_is_refused_goes_plain_and_the_file_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"x")
    async with FakeTelegram() as platform, connected(platform) as bot:
        message = await bot.send(file_part(path, text=TextPart("<b>a", "a")))
        assert platform.messages[7, int(message)]["caption"] == "a"
        assert platform.called("sendDocument")[1]["document"] == ("a.pdf", b"x")


@on_loop
async def test_what_can_never_be_sent_is_refused_before_anything_is(tmp_path: Path) -> None:
    empty, big, good = tmp_path / "empty", tmp_path / "big", tmp_path / "good"
    empty.write_bytes(b"")
    good.write_bytes(b"x")
    with big.open("wb") as file:
        file.truncate((50 << 20) + 1)
    long = TextPart("x" * 1025, "x" * 1025)
    async with FakeTelegram() as platform, connected(platform) as bot:
        for part, words in [
            (file_part(empty), "empty"),
            (file_part(big), "50 MB"),
            (file_part(tmp_path / "gone"), "cannot be read"),
            (file_part(good, text=long), "caption"),
        ]:
            with pytest.raises(DeliveryRefused, match=words):
                await bot.send(part)
        assert [method for method, _ in platform.calls] == ["getMe"]


@on_loop
async def test_an_upload_without_an_answer_is_unknown_and_one_without_a_server_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1000)
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.spoil("sendDocument", Fault(cut="after"))
        with pytest.raises(DeliveryUnknown):
            await bot.send(file_part(path))
        await platform.stop()
        with pytest.raises(DeliveryUnavailable):
            await bot.send(file_part(path))
        await platform.start()
