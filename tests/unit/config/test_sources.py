from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.config.json5 import to_plain
from tidegate.config.sources import locate_key, locate_node, read_tree


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.json5").write_text(text, encoding="utf-8")
    return folder / "main.json5"


def data(path: Path) -> object:
    tree = read_tree(path)
    assert [str(problem) for problem in tree.problems] == []
    assert tree.root is not None
    return to_plain(tree.root)


def only_problem(path: Path) -> str:
    tree = read_tree(path)
    assert len(tree.problems) == 1, [str(problem) for problem in tree.problems]
    return str(tree.problems[0])


def test_later_includes_and_siblings_win_key_by_key(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main='{ $include: ["./one.json5", "two.json5"], q: { cap: 7 } }',
        one='{ q: { mode: "collect", cap: 1 }, list: [1, 2], only: 1 }',
        two='{ q: { mode: "interrupt", cap: 3 }, list: [3] }',
    )
    assert data(main) == {"q": {"mode": "interrupt", "cap": 7}, "list": [3], "only": 1}


def test_an_include_can_stand_anywhere_and_reads_from_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts", agents='{ $include: "deep.json5", a: 1 }', deep="{ b: 2 }")
    main = write(
        tmp_path, main='{ agents: { $include: "parts/agents.json5" }, list: [{ $include: "parts/deep.json5" }] }'
    )
    assert data(main) == {"agents": {"b": 2, "a": 1}, "list": [{"b": 2}]}


def test_places_point_into_the_file_that_holds_the_value(tmp_path: Path) -> None:
    main = write(tmp_path, main='{ $include: "part.json5",\n x: { own: 1 } }', part="{\n  x: { theirs: 2 } }")
    root = read_tree(main).root
    theirs = locate_node(root, ("x", "theirs"))
    own = locate_key(root, ("x", "own"))
    assert theirs is not None
    assert own is not None
    assert (theirs[0].file.name, theirs[0].position(theirs[1])) == ("part.json5", (2, 16))
    assert (own[0].file.name, own[0].position(own[1])) == ("main.json5", (2, 7))


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    main = write(tmp_path, main='{ $include: "one.json5" }', one='{\n $include: "main.json5" }')
    assert "one.json5:2:12: these files include each other: main.json5 → one.json5 → main.json5" in only_problem(main)


def test_ten_levels_are_allowed_and_eleven_are_not(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{n}": f'{{ $include: "f{n + 1}.json5" }}' for n in range(12)}, f12="{ a: 1 }")
    assert "more than 10 levels of $include" in only_problem(tmp_path / "f1.json5")
    assert data(tmp_path / "f2.json5") == {"a": 1}


@pytest.mark.parametrize("name", ["../outside.json5", "/etc/hostname", "link.json5"])
def test_nothing_outside_the_folder_is_included(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    write(tmp_path, outside="{ a: 1 }")
    (folder / "link.json5").symlink_to(tmp_path / "outside.json5")
    main = write(folder, main=f'{{ $include: "{name}" }}')
    assert "lies outside the configuration folder" in only_problem(main)


def test_a_missing_included_file_is_told_at_the_include(tmp_path: Path) -> None:
    main = write(tmp_path, main='{\n  $include: "gone.json5" }')
    assert "main.json5:2:13: cannot read the included file 'gone.json5': No such file" in only_problem(main)


def test_a_mistake_in_an_included_file_is_told_in_that_file(tmp_path: Path) -> None:
    main = write(tmp_path, main='{ $include: "part.json5" }', part="{\n a 1 }")
    assert "part.json5:2:4: expected ':'" in only_problem(main)


@pytest.mark.parametrize("value", ["5", "[]", '[""]', "{}", "[1]", "null"])
def test_include_takes_names_only(tmp_path: Path, value: str) -> None:
    assert "takes a file name" in only_problem(write(tmp_path, main=f"{{ $include: {value} }}"))


def test_keys_beside_an_include_need_an_object(tmp_path: Path) -> None:
    main = write(tmp_path, main='{ a: { $include: "part.json5", b: 1 } }', part="[1]")
    assert "need an included object" in only_problem(main)


def test_a_file_that_is_no_object_or_no_text_is_refused(tmp_path: Path) -> None:
    assert "must be an object" in only_problem(write(tmp_path, main="[1]"))
    (tmp_path / "main.json5").write_bytes(b"{ a: '\xff' }")
    assert "not UTF-8" in only_problem(tmp_path / "main.json5")


def test_the_digest_covers_included_files(tmp_path: Path) -> None:
    main = write(tmp_path, main='{ $include: "part.json5" }', part="{ a: 1 }")
    before = read_tree(main).digest
    assert read_tree(main).digest == before
    write(tmp_path, part="{ a: 2 }")
    assert read_tree(main).digest != before
