from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.config.load import Loaded, load_config, locate
from tidegate.config.problems import InvalidConfig, ProblemKind

CONFIGS = Path(__file__).parents[2] / "data" / "configs"
EXAMPLES = [path for path in sorted(CONFIGS.glob("0*.json5")) if "-part-" not in path.name]


def load(tmp_path: Path, text: str, **environ: str) -> Loaded:
    path = tmp_path / "tidegate.json"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ={"HOME": "/home/ana", **environ}, state_dir=tmp_path / "state")


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path, text)
    return [str(problem).removeprefix(f"{tmp_path}/tidegate.json:") for problem in caught.value.problems]


def warnings(tmp_path: Path, text: str, **environ: str) -> list[str]:
    found = load(tmp_path, text, **environ).warnings
    return [str(problem).removeprefix(f"{tmp_path}/tidegate.json:") for problem in found]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_as_it_is_with_unused_settings_named(path: Path, tmp_path: Path) -> None:
    loaded = load_config(path, environ={}, state_dir=tmp_path)
    assert {warning.kind for warning in loaded.warnings} <= {ProblemKind.UNSUPPORTED}
    assert all(warning.line > 1 for warning in loaded.warnings)


def test_six_examples_are_there() -> None:
    assert len(EXAMPLES) == 6


def test_a_missing_file_means_the_defaults(tmp_path: Path) -> None:
    config = load_config(tmp_path / "none.json", environ={}, state_dir=tmp_path).config
    assert config.gateway.port == 18790
    assert config.gateway.bind == "loopback"
    assert config.gateway.auth.effective_mode == "token"
    assert config.session.dm_scope is None
    assert (config.session.reset.mode, config.session.reset.at_hour) == ("daily", 4)
    queue = config.messages.queue
    assert (queue.mode, queue.debounce_ms, queue.cap, queue.drop) == ("collect", 500, 20, "summarize")
    assert config.messages.inbound.debounce_ms == 0
    assert config.messages.outbox.max_age == timedelta(hours=1)
    assert config.agents.defaults.max_concurrent == 64
    assert config.tools.loop_detection.enabled
    assert config.tools.exec.security == "allowlist"
    assert config.channels.telegram is None
    assert [agent.id for agent in config.agents.roster()] == ["main"]


def test_a_section_in_the_file_gets_the_same_defaults_as_an_absent_one(tmp_path: Path) -> None:
    text = "{ gateway: {}, session: {}, messages: {}, commands: {}, models: {}, logging: {}, tools: {}, channels: {} }"
    present = load(tmp_path, text).config
    absent = load(tmp_path, "{}").config
    assert present.effective() == absent.effective()


def test_every_problem_is_told_at_once_each_at_its_place(tmp_path: Path) -> None:
    text = """{
  gateway: { port: 70000, prot: 1 },
  session: { dmScope: "per-per" },
  messages: { queue: { mode: "colect" } },
  colour: 1,
  agents: { defaults: { timeoutSeconds: "60" } },
}"""
    assert problems(tmp_path, text) == [
        "2:20: gateway.port: must be less than or equal to 65535",
        "2:27: gateway.prot: unknown key 'prot' (did you mean 'port'?)",
        "3:23: session.dmScope: must be 'main', 'per-peer', 'per-channel-peer' or 'per-account-channel-peer', "
        "found 'per-per' (did you mean 'per-peer'?)",
        "4:30: messages.queue.mode: must be 'collect', 'steer', 'followup', 'interrupt' or 'steer-backlog', "
        "found 'colect' (did you mean 'collect'?)",
        "5:3: unknown key 'colour'".replace("5:3: ", "5:3: colour: "),
        "6:41: agents.defaults.timeoutSeconds: expected a whole number, found text",
    ]


def test_a_syntax_mistake_is_the_only_problem_of_a_file(tmp_path: Path) -> None:
    assert problems(tmp_path, "{ gateway: { mode: 1 ") == [
        "1:22: expected '}' to close what was opened at 1:12, found the end of the file"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{ env: { FOO: 'bar' } }", "1:10: env.FOO: unknown key 'FOO' (write it as env.vars.FOO)"),
        ("{ gateway: [] }", "1:12: gateway: expected an object: { … }, found a list"),
        ("{ bindings: {} }", "1:13: bindings: expected a list: [ … ]"),
        ("{ commands: { text: 'yes' } }", "1:21: commands.text: expected true or false, found text"),
        ("{ gateway: { port: true } }", "1:20: gateway.port: expected a whole number, found true"),
        (
            "{ channels: { telegarm: {} } }",
            "1:15: channels.telegarm: unknown channel 'telegarm' (did you mean 'telegram'?)",
        ),
        ("{ cron: { maxConcurrentRuns: 2 } }", "1:11: cron.maxConcurrentRuns: unknown key 'maxConcurrentRuns'"),
        (
            "{ agents: { defaults: { userTimezone: 'Mars' } } }",
            "1:39: agents.defaults.userTimezone: 'Mars' is not a time zone; write it like Europe/Lisbon",
        ),
        (
            "{ tools: { allow: ['read'], alsoAllow: ['exec'] } }",
            "1:10: tools: allow and alsoAllow exclude each other; put everything in allow",
        ),
        (
            "{ messages: { outbox: { maxAge: 'soon' } } }",
            "1:33: messages.outbox.maxAge: 'soon' is not a duration; write it like 500ms, 30s, 5m, 2h or 1h30m",
        ),
        (
            "{ channels: { telegram: { groups: { '*': { requireMention: 1 } } } } }",
            "1:60: channels.telegram.groups.*.requireMention: expected true or false, found a number",
        ),
        ("{ bindings: [{ agentId: 'main' }] }", "1:14: bindings[0].match: this key is required"),
        (
            "{ models: { providers: { x: { apiKey: { source: 'vault', id: 'A' } } } } }",
            "1:49: models.providers.x.apiKey.source: must be 'env', 'file', 'exec' or 'store', found 'vault'",
        ),
        (
            "{ session: { idleMinutes: 5 } }",
            "1:14: session.idleMinutes: unknown key 'idleMinutes' (write it as session.reset.idleMinutes)",
        ),
        (
            "{ channels: { telegram: { botToken: '1:a', streaming: 'partial' } } }",
            "1:55: channels.telegram.streaming: expected an object: { … }, found text "
            "(write it as { mode: 'partial' })",
        ),
        (
            "{ agents: { entries: { a: 5 } }, broadcast: { x: ['a'] },"
            " bindings: [{ agentId: 'a', match: { channel: 'irc' } }] }",
            "1:27: agents.entries.a: expected an object: { … }, found a number",
        ),
        (
            "{ gateway: { bind: 'lan', auth: { mode: 'none' } } }",
            "1:20: gateway.bind: bind 'lan' without authentication would let anybody in "
            '(set gateway.auth.mode to "token", or gateway.bind to "loopback")',
        ),
        (
            "{ gateway: { auth: { token: 'a', password: 'b' } } }",
            '1:20: gateway.auth: both a token and a password are set (set gateway.auth.mode to "token" or "password")',
        ),
        (
            "{ gateway: { bind: 'lan' } }",
            "1:20: gateway.bind: bind 'lan' would send the token over the network in the clear (put a proxy with "
            "TLS in front and name its address in gateway.trustedProxies, or keep gateway.bind: "
            '"loopback" and use an SSH tunnel or Tailscale)',
        ),
        (
            "{ gateway: { auth: { mode: 'password' } } }",
            "1:28: gateway.auth.mode: mode 'password' needs a password (set gateway.auth.password, or "
            'gateway.auth.mode to "token")',
        ),
        (
            "{ gateway: { trustedProxies: ['10.0.0.2', 'the proxy'] } }",
            "1:43: gateway.trustedProxies[1]: 'the proxy' is no address (an address or a network, for example "
            '"10.0.0.2" or "10.0.0.0/8")',
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_the_repair(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, text) == [problem]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("{ channels: { discord: {} } }", "1:15: channels.discord: this channel is not available in this version"),
        ("{ ui: { seamColor: '#fff' } }", "1:3: ui: this setting is not used in this version"),
        ("{ gateway: { tailscale: { mode: 'off' } } }", "1:14: gateway.tailscale: this setting is not used"),
        ("{ a: 1, a: 2 }".replace("a:", "meta:"), "1:12: the key 'meta' is given twice"),
        (
            "{ agents: { entries: { ann: {}, bob: {} } } }",
            "1:3: agents: no agent is the default, so messages that no binding matches are refused "
            '(set agents.defaults.systemAgent.agentId, for example to "ann")',
        ),
        (
            "{ bindings: [{ agentId: 'mian', match: { channel: 'telegram' } }] }",
            "1:25: bindings[0].agentId: there is no agent 'mian', so messages this binding matches are refused "
            "(did you mean 'main'?)",
        ),
        (
            "{ bindings: [{ agentId: 'main', match: { channel: 'telegramm' } }] }",
            "1:51: bindings[0].match.channel: this binding can never match: there is no channel 'telegramm' "
            "(did you mean 'telegram'?)",
        ),
        (
            "{ bindings: [{ agentId: '', match: { channel: 'irc' } }, { agentId: '', match: { channel: ' IRC ' } }] }",
            "1:58: bindings[1]: this binding can never match: bindings[0] matches the same messages first",
        ),
        (
            "{ channels: { telegram: { accounts: { biz: { botToken: '1:a' } } } },"
            " bindings: [{ agentId: 'main', match: { channel: 'telegram' } }] }",
            "1:108: bindings[0].match: this binding can never match: telegram has no account 'default' "
            '(set accountId to "biz", or to "*" for every account)',
        ),
        (
            "{ channels: { telegram: { botToken: '1:a', dmPolicy: 'open' } } }",
            "1:54: channels.telegram.dmPolicy: dmPolicy 'open' admits nobody",
        ),
        (
            "{ channels: { telegram: { defaultAccount: 'ops', botToken: '1:a' } } }",
            "1:43: channels.telegram.defaultAccount: there is no account 'ops' (known accounts: default)",
        ),
        ("{ channels: { telegram: {} } }", "1:25: channels.telegram: the account 'default' has no token"),
        (
            "{ gateway: { auth: { token: '${NOPE}' } } }",
            "1:29: gateway.auth.token: the variable NOPE is not set",
        ),
    ],
)
def test_what_is_odd_is_a_warning_and_still_loads(tmp_path: Path, text: str, warning: str) -> None:
    found = warnings(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(warning)


def test_an_unsupported_key_beside_a_mistake_does_not_hide_it(tmp_path: Path) -> None:
    text = "{ gateway: { tailscale: { mode: 'off', bogus: 1 }, port: 'x' } }"
    assert problems(tmp_path, text) == [
        "1:40: gateway.tailscale.bogus: unknown key 'bogus'",
        "1:58: gateway.port: expected a whole number, found text",
    ]


def test_variables_come_from_process_then_dotenv_then_config(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / ".env").write_text("A=dotenv\nB=dotenv\n", encoding="utf-8")
    (tmp_path / ".env").write_text("D=never read\n", encoding="utf-8")
    text = "{ env: { vars: { A: 'c', B: 'c', C: 'c' } }, messages: { responsePrefix: '${A} ${B} ${C} ${D} $${A}' } }"
    loaded = load(tmp_path, text, A="process")
    assert loaded.config.messages.response_prefix == "process dotenv c ${D} ${A}"
    assert [warning.path for warning in loaded.warnings] == ["messages.responsePrefix"]


def test_workspaces_belong_to_the_state_directory_unless_set(tmp_path: Path) -> None:
    text = """{ agents: { entries: {
      Ann: { default: true }, bob: {}, cid: { workspace: "~/cid" }, dan: { workspace: "/srv/dan" } } } }"""
    roster = {agent.id: agent for agent in load(tmp_path, text).config.agents.roster()}
    state = tmp_path / "state"
    assert {name: agent.workspace for name, agent in roster.items()} == {
        "ann": state / "workspace",
        "bob": state / "workspace-bob",
        "cid": Path("/home/ana/cid"),
        "dan": Path("/srv/dan"),
    }
    assert [name for name, agent in roster.items() if agent.is_default] == ["ann"]


def test_agents_inherit_what_they_do_not_say(tmp_path: Path) -> None:
    text = """{ agents: { list: [
        { id: "a", model: "x/big", thinkingDefault: "high", identity: { name: "Tidy" } },
        { id: "b", model: { fallbacks: ["x/tiny"] }, skills: [] }],
      defaults: { model: "x/small", typingMode: "thinking", bootstrapMaxChars: 7, skills: ["s"],
                  systemAgent: { agentId: "B" } } } }"""
    agents = load(tmp_path, text).config.agents
    first, second = agents.roster()
    assert agents.default_agent_id == "b"
    assert (first.model.primary, first.thinking_default, first.name, first.skills) == ("x/big", "high", "Tidy", ("s",))
    assert (second.model.primary, second.model.fallbacks, second.skills) == ("x/small", ("x/tiny",), ())
    assert (first.typing_mode, first.bootstrap_max_chars, first.timeout_seconds) == ("thinking", 7, 172_800)


def test_list_and_entries_together_and_two_defaults_are_refused(tmp_path: Path) -> None:
    both = "{ agents: { list: [{ id: 'a' }], entries: { b: { default: true } } } }"
    assert problems(tmp_path, both)[0].startswith("1:13: agents.list: agents.list and agents.entries")
    two = "{ agents: { entries: { a: { default: true }, b: { default: true } } } }"
    assert problems(tmp_path, two)[0].startswith("1:11: agents.ownership: 2 agents are marked as default")


def test_accounts_override_the_channel_key_by_key(tmp_path: Path) -> None:
    text = """{ channels: { telegram: {
      botToken: "1:root", dmPolicy: "allowlist", allowFrom: [7, "8"], historyLimit: 5, dms: { "1": {} },
      accounts: {
        Ops: { botToken: "2:ops", historyLimit: 0, dms: { "2": {} } },
        off: { enabled: false, botToken: "3:x" } } } } }"""
    telegram = load(tmp_path, text).config.channels.telegram
    assert telegram is not None
    options = telegram.account_options()
    assert list(options) == ["default", "ops", "off"]
    assert [options[name].bot_token for name in options] == ["1:root", "2:ops", "3:x"]
    assert (options["ops"].dm_policy, options["ops"].allow_from, options["ops"].history_limit) == (
        "allowlist",
        ("7", "8"),
        0,
    )
    assert set(options["ops"].dms) == {"2"}
    assert set(options["default"].dms) == {"1"}
    assert [options[name].enabled for name in options] == [True, True, False]


def test_a_token_in_the_environment_serves_a_telegram_section_without_one(tmp_path: Path) -> None:
    loaded = load(tmp_path, "{ channels: { telegram: {} } }", TELEGRAM_BOT_TOKEN="1:env")
    assert loaded.warnings == ()
    telegram = loaded.config.channels.telegram
    assert telegram is not None
    assert telegram.account_options()["default"].bot_token == "1:env"


@pytest.mark.parametrize(
    ("mode", "meaning"),
    [("queue", "steer"), ("steer+backlog", "steer-backlog"), ("steer-backlog", "steer-backlog"), ("steer", "steer")],
)
def test_old_names_of_queue_modes_are_understood(tmp_path: Path, mode: str, meaning: str) -> None:
    assert load(tmp_path, f"{{ messages: {{ queue: {{ mode: '{mode}' }} }} }}").config.messages.queue.mode == meaning


def test_secrets_do_not_show_in_representations(tmp_path: Path) -> None:
    text = """{ gateway: { auth: { token: 'hush' } }, env: { vars: { A: 'hush' } },
      channels: { telegram: { botToken: 'hush' } } }"""
    assert "hush" not in repr(load(tmp_path, text).config)


@pytest.mark.parametrize(
    ("config", "state", "environ", "expected"),
    [
        (None, None, {}, ("/home/ana/.tidegate/tidegate.json", "/home/ana/.tidegate")),
        (None, "/s", {}, ("/s/tidegate.json", "/s")),
        (None, None, {"TIDEGATE_CONFIG": "~/c.json", "TIDEGATE_STATE_DIR": "/e"}, ("/home/ana/c.json", "/e")),
        ("/x.json", "/s", {"TIDEGATE_CONFIG": "/c", "TIDEGATE_STATE_DIR": "/e"}, ("/x.json", "/s")),
    ],
)
def test_the_command_line_wins_over_variables_over_the_home(
    config: str | None, state: str | None, environ: dict[str, str], expected: tuple[Any, Any]
) -> None:
    paths = locate(config, state, {"HOME": "/home/ana", **environ})
    assert (str(paths.config), str(paths.state_dir)) == expected


def test_included_files_and_dotenv_are_watched(tmp_path: Path) -> None:
    (tmp_path / "part.json5").write_text("{}", encoding="utf-8")
    loaded = load(tmp_path, '{ $include: "part.json5" }')
    assert [path.name for path in loaded.files] == ["tidegate.json", "part.json5", ".env"]
    assert len(loaded.digest) == 64
