"""Configuration: one definition, three sources, and an error that names what is wrong and where."""

from pathlib import Path

import msgspec
import pytest

from braidmq.config import (
    SETTINGS,
    AdminConfig,
    AuthConfig,
    Config,
    Listener,
    flag_of,
    format_verifier,
    load_config,
    overlooked_variables,
    without_secrets,
)
from braidmq.errors import ConfigError
from braidmq.limits import Limits
from braidmq.scram import make_credential

VERIFIER = "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "braidmq.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_given_is_the_default() -> None:
    assert load_config() == Config()
    assert Config().listeners == (Listener(host="127.0.0.1", port=1883),)


def test_a_file_sets_every_kind_of_value(tmp_path: Path) -> None:
    config = load_config(
        write(
            tmp_path,
            f"""
        [limits]
        inflight_max = 20
        [[listener]]
        port = 0
        [[listener]]
        host = "::1"
        port = 1884
        [store]
        in_memory = true
        [auth]
        allow_anonymous = false
        scram_users = {{ ada = "{VERIFIER}" }}
        [log]
        level = "debug"
        """,
        )
    )
    assert config.limits == msgspec.structs.replace(Limits(), inflight_max=20)
    assert [(listener.host, listener.port) for listener in config.listeners] == [
        ("127.0.0.1", 0),
        ("::1", 1884),
    ]
    assert config.store.in_memory
    assert config.auth.scram_users == {"ada": VERIFIER}
    assert config.log.level == "debug"


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[limits]\ninflight_max = 1\nreceive_maximum = 1\nproperties_max = 1\n")
    env = {"BRAIDMQ_LIMITS_INFLIGHT_MAX": "2", "BRAIDMQ_LIMITS_RECEIVE_MAXIMUM": "2"}
    limits = load_config(path, env, {"limits.inflight_max": "3"}).limits
    assert (limits.inflight_max, limits.receive_maximum, limits.properties_max) == (3, 2, 1)


def test_a_flag_changes_the_only_listener_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, '[[listener]]\nhost = "::1"\nport = 1\n')
    assert load_config(path, {}, {"listener.port": "7"}).listeners == (Listener(host="::1", port=7),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[limits]\n\ninflight_mx = 3\n",
            ":3: [limits] inflight_mx: unknown key; did you mean inflight_max?",
        ),
        ("[limtis]\nx = 1\n", ":1: unknown table [limtis]; did you mean limits?"),
        (
            '[limits]\ninflight_max = "3"\n',
            ":2: [limits] inflight_max: expected a whole number from 1 to 65535",
        ),
        ("[limits]\ninflight_max = true\n", ":2: [limits] inflight_max: expected a whole number"),
        (
            "limits.inflight_max = 0\n",
            ":1: [limits] inflight_max: expected a whole number from 1 to 65535, got 0",
        ),
        ("[limits]\nconnections_max = 0\n", "connections_max: expected a whole number of at least 1, got 0"),
        (
            "[[listener]]\nport = 1\n[[listener]]\nport = 70000\n",
            ":4: [listener] port: expected a whole number from 0",
        ),
        ("[listener]\nport = 1\n", ":1: listener is written [[listener]]"),
        ("listener = []\n", ":1: listener is written [[listener]]"),
        ("limits = 3\n", ":1: limits must be a table, [limits]"),
        ('[log]\nlevel = "loud"\n', "[log] level: expected one of debug, error, info, warning, got 'loud'"),
        ('[store]\ndata_dir = ""\n', "[store] data_dir: expected a text that isn't empty"),
        ('[auth.scram_users]\nada = "secret"\n', ":1: [auth] scram_users: expected a table"),
        ("[limits\n", "not valid TOML"),
        ("[limits]\ninflight_max = 1\ninflight_max = 2\n", "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_wrong_secret_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, '[auth.scram_users]\nada = "hunter2"\n'))
    assert "hunter2" not in str(caught.value)


def test_a_token_that_is_too_short_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="a text of at least 16 characters") as caught:
        load_config(env={"BRAIDMQ_ADMIN_TOKEN": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_the_admin_api_needs_no_token_on_loopback(host: str) -> None:
    assert load_config(overrides={"admin.port": 0, "admin.host": host}).admin.port == 0


def test_a_verifier_is_read_back_as_the_credential_it_was_made_from(tmp_path: Path) -> None:
    credential = make_credential("secret", b"0123456789abcdef", 4096)
    path = write(tmp_path, f'[auth.scram_users]\nada = "{format_verifier(credential)}"\n')
    assert load_config(path).auth.credentials() == {"ada": credential}


def test_a_verifier_with_broken_base64_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a verifier is damaged"):
        load_config(write(tmp_path, '[auth.scram_users]\nada = "SCRAM-SHA-256$4096:abc$abc:abc"\n'))


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("BRAIDMQ_LIMITS_INFLIGT_MAX", "1", "did you mean BRAIDMQ_LIMITS_INFLIGHT_MAX?"),
        ("BRAIDMQ_LIMITS_INFLIGHT_MAX", "many", "BRAIDMQ_LIMITS_INFLIGHT_MAX: expected a whole number"),
        ("BRAIDMQ_STORE_IN_MEMORY", "perhaps", "BRAIDMQ_STORE_IN_MEMORY: expected true or false"),
    ],
)
def test_a_mistake_in_a_variable_is_named(variable: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match="BRAIDMQ_") as caught:
        load_config(env={variable: value})
    assert message in str(caught.value)


def test_variables_of_others_under_our_prefix_are_let_pass() -> None:
    env = {"BRAIDMQ_PORT": "tcp://10.0.0.1:1883", "BRAIDMQ_SERVICE_HOST": "10.0.0.1", "PATH": "/bin"}
    env |= {"BRAIDMQ_PORT_1883_TCP_ADDR": "10.0.0.1", "BRAIDMQ_CLUSTER_SERVICE_PORT": "1"}
    assert load_config(env=env) == Config()
    assert overlooked_variables(env) is None


def test_variables_that_set_nothing_are_told_in_one_line() -> None:
    env = {"BRAIDMQ_LIMIT_INFLIGHT_MAX": "3", "BRAIDMQ_COLOUR": "red", "BRAIDMQ_LIMITS_INFLIGHT_MAX": "3"}
    assert load_config(env=env).limits.inflight_max == 3
    told = overlooked_variables(env)
    assert told is not None
    assert "BRAIDMQ_LIMIT_INFLIGHT_MAX (did you mean BRAIDMQ_LIMITS_INFLIGHT_MAX?)" in told
    assert "BRAIDMQ_COLOUR" in told
    assert "\n" not in told
    every_setting = {setting.variable: "" for setting in SETTINGS.values() if setting.is_scalar}
    assert overlooked_variables({"BRAIDMQ_CONFIG": "", "BRAIDMQ_PASSWORD": "", **every_setting}) is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"store.in_memory": True, "store.data_dir": "x"}, "exclude each other"),
        ({"auth.allow_anonymous": False}, "no client could connect"),
        ({"admin.port": 1, "admin.host": "0.0.0.0"}, "a token is needed"),
        ({"limits.packet_bytes_max": 8_388_608}, "could never be sent on"),
        ({"limits.queue_bytes_max": 1_048_575}, "could never be queued"),
        ({"limits.keep_alive_s_max": 10, "limits.server_keep_alive_s": 20}, "above keep_alive_s_max"),
    ],
)
def test_values_that_contradict_each_other_are_refused(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(overrides=overrides)


def test_a_flag_is_refused_where_the_file_leaves_open_which_listener_it_means(tmp_path: Path) -> None:
    path = write(tmp_path, "[[listener]]\nport = 1\n[[listener]]\nport = 2\n")
    with pytest.raises(ConfigError, match="--port: which listener is meant"):
        load_config(path, {}, {"listener.port": "3"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("auth.allow_anonymos", "--set auth.allow_anonymos: unknown key; did you mean allow_anonymous?"),
        ("limit.inflight_max", "--set limit.inflight_max: unknown table 'limit'; did you mean limits?"),
        ("limits.inflight_mx", "--limit inflight_mx: unknown key; did you mean inflight_max?"),
        ("port", "--set port: unknown table 'port'"),
    ],
)
def test_an_unknown_flag_value_is_named_as_it_was_written(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(overrides={name: "1"})
    assert str(caught.value).startswith(message)


def test_every_setting_can_be_set_to_its_default_by_a_variable() -> None:
    set_ones = [s for s in SETTINGS.values() if s.is_scalar and s.default not in (None, ())]
    scalars = {setting.variable: str(setting.default) for setting in set_ones}
    assert load_config(env=scalars) == Config()
    assert len(scalars) > 20


def test_every_setting_has_a_flag_of_its_own_and_a_description() -> None:
    assert len({flag_of(name) for name in SETTINGS}) == len(SETTINGS)
    assert all(setting.description.endswith((".", ")")) for setting in SETTINGS.values())


def test_the_default_limits_lie_in_their_own_ranges() -> None:
    assert msgspec.convert(msgspec.to_builtins(Limits()), Limits) == Limits()


def test_every_limit_says_its_unit_last() -> None:
    without_unit = {"receive_maximum", "overflow"}  # a name of the standard, and a word
    units = ("_max", "_s", "_ms", "_bytes")
    assert all(name.endswith(units) for name in set(Limits.__struct_fields__) - without_unit)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_without_authentication_this_machine_may_connect(host: str) -> None:
    assert load_config(overrides={"listener.host": host}).auth.lets_strangers_in


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example", "127.0.0.1.example"])
def test_without_authentication_other_machines_may_not(host: str) -> None:
    with pytest.raises(ConfigError, match=r"no authentication is configured; .*allow_anonymous=true"):
        load_config(overrides={"listener.host": host})
    asked_for = load_config(overrides={"listener.host": host, "auth.allow_anonymous": "true"})
    assert asked_for.auth.lets_strangers_in


def test_with_users_strangers_are_kept_out_unless_they_are_asked_in(tmp_path: Path) -> None:
    path = write(tmp_path, f'[auth.scram_users]\nada = "{VERIFIER}"\n')
    assert not load_config(path, overrides={"listener.host": "0.0.0.0"}).auth.lets_strangers_in
    assert load_config(path, overrides={"auth.allow_anonymous": "true"}).auth.lets_strangers_in


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('certificate = "a.pem"', "certificate and key belong together"),
        ('key = "a.key"', "certificate and key belong together"),
        ('client_ca = "ca.pem"', "client_ca needs TLS"),
        ('origins = "*"', "origins are for web pages"),
    ],
)
def test_half_of_a_listener_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path, f"[[listener]]\n{text}\n"))


def test_what_a_plug_in_is_told_passes_through_and_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[observers.audit-log]\npath = "x"\ndepth = 3\n[observers.other]\n')
    config = load_config(path)
    assert config.observers == {"audit-log": {"path": "x", "depth": 3}, "other": {}}
    assert without_secrets(config)["observers"] == {"audit-log": {"path": "***", "depth": "***"}, "other": {}}


def test_plug_ins_are_named_in_tables_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[store]\n[observers]\naudit-log = "on"\n')
    with pytest.raises(ConfigError, match=r"c.toml:2: observers is written \[observers.NAME\]"):
        load_config(path)
    with pytest.raises(ConfigError, match=r"plug-ins are configured in a file only"):
        load_config(None, {}, {"observers.audit-log": "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[store]\n[limits\n", r"c.toml:2: not valid TOML"),
        ('[store]\ndata_dir = "x', r"c.toml:2: not valid TOML.*at end of document"),
        ("[limits]\nqueue_bytes_max = 2048\n", r"c.toml:2: \[limits\] queue_bytes_max \(2048\) is below"),
        ("[limits]\npacket_bytes_max = 9999999\n", r"c.toml:1: \[limits\] output_bytes_max"),
        ("[store]\n\n[auth]\nhttp_url = 'ftp://x'\n", r"c.toml:4: \[auth\] http_url: expected https"),
        (
            '[[listener]]\nport = 1\n[[listener]]\nport = 2\ncertificate = "c.pem"\n',
            r"c.toml:3: \[\[listener\]\] 127.0.0.1:2: certificate and key belong together",
        ),
        (
            "[[listener]]\nport = 7\n[[listener]]\nport = 7\n",
            r"c.toml:\d: \[\[listener\]\] 127.0.0.1:7: there are two of them",
        ),
        ("[[listener]]\nport = 7\n[admin]\nport = 7\n", r"c.toml:4: \[admin\] port \(7\) is that of"),
        ('[store]\ndata_dir = "d"\nin_memory = true\n', r"c.toml:3: \[store\] in_memory and data_dir"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_text_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(b"[store]\n# \xff\n")
    with pytest.raises(ConfigError, match=r"c.toml:2: not UTF-8 text \(byte 10 of the file\)"):
        load_config(path)


def test_a_mistake_of_a_flag_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[store]\n")
    with pytest.raises(ConfigError, match=r"^\[limits\] queue_bytes_max"):
        load_config(path, {}, {"limits.queue_bytes_max": "2048"})


def test_an_address_of_a_service_may_hold_a_secret_and_is_not_shown() -> None:
    config = Config(auth=AuthConfig(http_url="https://auth.example/mqtt?token=secret"))
    assert without_secrets(config)["auth"]["http_url"] == "***"
    with pytest.raises(ConfigError) as refused:
        load_config(None, {}, {"auth.http_url": "ftp://auth.example/?token=secret"})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],
)
def test_what_is_loopback_is_so_for_listeners_and_for_the_api(host: str, is_loopback: bool) -> None:
    assert AdminConfig(host=host).is_loopback is is_loopback
    assert Listener(host=host).is_local is is_loopback
