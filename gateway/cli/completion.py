"""`tidegate completion`: shell completion, made from the parser itself so that it cannot lag behind."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.gateway.cli.parser import Arguments, build_parser


@dataclass(frozen=True, slots=True)
class Words:
    """What can follow a command.

    Attributes:
        command: The words that lead here, without `tidegate`.
        commands: Sub-commands with their help.
        options: Options with their help.
        choices: Values of the next word where there is a fixed list.
        files: Options that take a file or folder.
        values: Options with a fixed list of values.
    """

    command: tuple[str, ...]
    commands: dict[str, str]
    options: dict[str, str]
    choices: tuple[str, ...]
    files: tuple[str, ...]
    values: dict[str, tuple[str, ...]]


def completion(arguments: Arguments) -> int:
    """Print the script for one shell."""
    makers = {"bash": bash, "zsh": zsh, "fish": fish}
    print(makers[arguments.shell](tuple(walk(build_parser()))), end="")
    return 0


def walk(parser: argparse.ArgumentParser, command: tuple[str, ...] = ()) -> Iterator[Words]:
    """Yield what can follow, for every command."""
    commands: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: tuple[str, ...] = ()
    values: dict[str, tuple[str, ...]] = {}
    inner: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner = dict(action.choices)
            commands = {str(item.dest): str(item.help or "") for item in action._choices_actions}
        elif action.option_strings:
            options.update({name: str(action.help or "") for name in action.option_strings})
            if action.choices:
                values.update({name: tuple(map(str, action.choices)) for name in action.option_strings})
        elif action.choices:
            choices = tuple(map(str, action.choices))
    files = tuple(name for name in ("--config", "--state-dir", "--token-file", "--password-file") if name in options)
    yield Words(command, commands, options, choices, files, values)
    for name, sub in inner.items():
        yield from walk(sub, (*command, name))


_BASH = """\
# bash completion of tidegate; load it with: source <(tidegate completion bash)
_tidegate() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} at="" next i
    case $before in
        --config|--token-file|--password-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --state-dir) COMPREPLY=($(compgen -d -- "$word")); return ;;
    esac
    for ((i = 1; i < COMP_CWORD; i++)); do
        next="${{at:+$at }}${{COMP_WORDS[i]}}"
        case $next in
            {paths}) at=$next ;;
        esac
    done
    case "$at $before" in
{values}
    esac
    case $at in
{cases}
    esac
}}
complete -F _tidegate tidegate
"""


def bash(commands: tuple[Words, ...]) -> str:
    """Return the script for bash."""
    paths = "|".join(f'"{" ".join(words.command)}"' for words in commands if words.command)
    cases = "\n".join(
        f'        "{" ".join(words.command)}") COMPREPLY=($(compgen -W "{" ".join(_all(words))}" -- "$word")) ;;'
        for words in commands
    )
    values = "\n".join(
        f'        "{at} {name}") COMPREPLY=($(compgen -W "{" ".join(known)}" -- "$word")); return ;;'
        for at, name, known in _values(commands)
    )
    return _BASH.format(paths=paths, cases=cases, values=values)


_ZSH = """\
#compdef tidegate
# zsh completion of tidegate; load it with: source <(tidegate completion zsh)
_tidegate() {{
    local at="" next i
    case ${{words[CURRENT-1]}} in
        --config|--token-file|--password-file) _files; return ;;
        --state-dir) _files -/; return ;;
    esac
    for ((i = 2; i < CURRENT; i++)); do
        next="${{at:+$at }}${{words[i]}}"
        case $next in
            ({paths}) at=$next ;;
        esac
    done
    local -a found
    case "$at ${{words[CURRENT-1]}}" in
{values}
    esac
    case $at in
{cases}
    esac
    _describe 'tidegate' found
}}
compdef _tidegate tidegate
"""


def zsh(commands: tuple[Words, ...]) -> str:
    """Return the script for zsh."""
    paths = "|".join(f'"{" ".join(words.command)}"' for words in commands if words.command)
    cases = []
    for words in commands:
        told = {**words.commands, **dict.fromkeys(words.choices, ""), **words.options}
        items = " ".join(_quoted(f"{name}:{text}" if text else name) for name, text in told.items())
        cases.append(f'        ("{" ".join(words.command)}") found=({items}) ;;')
    values = "\n".join(
        f"        ({_quoted(f'{at} {name}')}) found=({' '.join(map(_quoted, known))}); _describe value found; return ;;"
        for at, name, known in _values(commands)
    )
    return _ZSH.format(paths=paths, cases="\n".join(cases), values=values)


def fish(commands: tuple[Words, ...]) -> str:
    """Return the script for fish."""
    lines = [
        "# fish completion of tidegate; load it with: tidegate completion fish | source",
        "complete -c tidegate -f",
    ]
    for words in commands:
        seen = [f"__fish_seen_subcommand_from {name}" for name in words.command]
        unseen = f"not __fish_seen_subcommand_from {' '.join(words.commands)}" if words.commands else ""
        for name, text in {**words.commands, **dict.fromkeys(words.choices, "")}.items():
            lines.append(_fish(" ; and ".join([*seen, *([unseen] if unseen else [])]), f"-a {name}", text))
        for name, text in words.options.items():
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            known = words.values.get(name)
            takes = " -r -F" if name in words.files else f" -x -a {_quoted(' '.join(known))}" if known else ""
            lines.append(_fish(" ; and ".join(seen), flag + takes, text))
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _fish(condition: str, what: str, text: str) -> str:
    when = f" -n {_quoted(condition)}" if condition else ""
    about = f" -d {_quoted(text)}" if text else ""
    return f"complete -c tidegate{when} {what}{about}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''").replace("\n", " ") + "'"


def _values(commands: tuple[Words, ...]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the command, the option and its values, for every option with a fixed list."""
    for words in commands:
        for name, known in words.values.items():
            yield " ".join(words.command), name, known


def _all(words: Words) -> list[str]:
    return [*words.commands, *words.choices, *words.options]
