# SPDX-License-Identifier: Apache-2.0
"""Settings: what is refused before anybody is served."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from durable import MODEL

from reticent.errors import InvalidInput, ReticentError, UnknownName
from reticent.service.config import DevelopmentSecrets, Settings, make_settings, read_settings
from reticent.service.fingerprint import fingerprint
from reticent.service.models import deployment_model

SECRET = "0123456789abcdef0123456789abcdef"


def test_default_secrets_are_for_loopback_and_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RETICENT_APP_KEY", "RETICENT_ADMIN_KEY", "RETICENT_USER_SECRET"):
        monkeypatch.delenv(variable, raising=False)
    for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1"):
        asked = Settings(world="riverswim", host=host).for_development()
        with pytest.warns(DevelopmentSecrets):
            assert asked.secret("app_key") == "dev-app-key"
        assert asked.open_reads
    for host in ("127.0.0.1", "0.0.0.0", "::", "10.0.0.1", "example.org"):
        public = Settings(world="riverswim", host=host)
        if host != "127.0.0.1":
            with pytest.raises(InvalidInput, match="loopback"):
                public.for_development()
        with pytest.raises(InvalidInput, match="RETICENT_USER_SECRET"):
            public.secret("user_secret")
        for weak in ("dev-user-secret", "short"):
            monkeypatch.setenv("RETICENT_USER_SECRET", weak)
            with pytest.raises(InvalidInput, match="at least 32"):
                public.secret("user_secret")
        monkeypatch.setenv("RETICENT_USER_SECRET", SECRET)
        assert public.secret("user_secret") == SECRET
        monkeypatch.delenv("RETICENT_USER_SECRET")
        assert not public.open_reads


def test_keys_are_kept_as_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETICENT_APP_KEY", SECRET)
    further = hashlib.sha256(b"another").hexdigest()
    hashes = Settings(world="riverswim", app_key_sha256=(further,)).key_hashes("app")
    assert hashes == (hashlib.sha256(SECRET.encode()).hexdigest(), further)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({}, "exactly one"),
        ({"world": "riverswim", "model_file": "x.npz"}, "exactly one"),
        ({"world": "riverswim", "workers": 4}, "PostgreSQL"),
        ({"world": "riverswim", "episodes": 0}, r"episodes is 0, but must be at least 1; docs/service\.md"),
        ({"world": "riverswim", "episodes": "many"}, r"episodes is 'many', but must be a whole number"),
        ({"world": "riverswim", "episodes": 1.5}, r"episodes is 1\.5, but must be a whole number"),
        ({"world": "riverswim", "pan_private": "perhaps"}, r"pan_private is 'perhaps', but must be true or false"),
        ({"world": "riverswim", "hosts": "here"}, r"hosts is 'here', but must be a list"),
        ({"world": ["riverswim"]}, r"world is a list, but must be text"),
        ({"world": "riverswim", "port": 70_000}, r"port is 70000, but must be at most 65535"),
        ({"world": "riverswim", "planning": "now"}, r"planning is 'now', but must be 'background' or 'inline'"),
        ({"world": "riverswim", "rate_limit": None}, r"rate_limit is empty, but must be a number"),
        ({"world": "riverswim", "rollback_guard": 3}, r"rollback_guard is not accepted, but must be a path"),
        ({"world": "riverswim", "witness": 3}, r"rollback_guard is not accepted, but must be a path"),
        (
            {"world": "riverswim", "app_key_sha256": ["plain text"]},
            r"app_key_sha256\.0 is not accepted, but must be text that",
        ),
        ({"world": "riverswim", "control": {"share": 0}}, r"control\.share is 0, but must be above 0"),
        ({"world": "riverswim", "control": {"share": 1}}, r"control\.share is 1, but must be below 1"),
        ({"world": "riverswim", "control": {"share": 0.2, "version": 1}}, r"^control\.version is 1.*first user"),
        ({"world": "riverswim", "control": {}}, r"control\.share is missing, but must be given"),
        ({"world": "riverswim", "control": 0.2}, r"control is 0\.2, but must be a mapping, such as \{share: …"),
        (
            {"world": "riverswim", "control": {"share": 0.2}, "shadow": True},
            "^control is beside shadow.*in shadow all users",
        ),
        ({"world": "riverswim", "control": {"share": 0.001}, "episodes": 500}, "some controls and some others"),
    ],
)
def test_bad_settings_say_what_is_wrong(content: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match) as refused:
        make_settings(content)
    assert not any(word in str(refused.value) for word in ("Input should", "Value error", "Field required"))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"world": "riverswim", "colour": "red"}, r"unknown setting 'colour' \(known: world, model_file, agent"),
        ({"world": "riverswim", "episode": 5, "port": -1}, r"unknown setting 'episode'; did you mean 'episodes'\?"),
        (
            {"world": "riverswim", "control": {"shre": 0.2}},
            r"unknown setting 'control\.shre'; did you mean 'control\.share'\? \(known: control\.share, control\.version\)",
        ),
    ],
)
def test_misspelled_settings_are_told_from_what_is_missing_without_them(content: dict[str, Any], match: str) -> None:
    with pytest.raises(UnknownName, match=match):
        make_settings(content)


def test_no_message_repeats_the_database_password() -> None:
    """One error is of the field itself, the other of the whole, of which the field is a part."""
    url = "postgresql+psycopg://reticent:hunter2@db/reticent"
    for content in (
        {"world": "riverswim", "database": [url]},
        {"world": "riverswim", "database": url, "port": -1},
        {"world": "riverswim", "database": url, "colour": "red"},
        {"world": "riverswim", "database": {"url": url}},
    ):
        with pytest.raises(ReticentError) as refused:
            make_settings(content)
        assert "hunter2" not in str(refused.value)


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text("world: riverswim\nepisodes: 77\n")
    assert read_settings(path, {}).episodes == 77
    assert read_settings(path, {"RETICENT_DATABASE": "sqlite:///other.db"}).database == "sqlite:///other.db"
    for wrong in ("- a list", "world: [", "\t"):
        path.write_text(wrong)
        with pytest.raises(InvalidInput, match="--config"):
            read_settings(path, {})
    with pytest.raises(InvalidInput, match="--config"):
        read_settings(tmp_path / "missing.yaml", {})


def test_a_model_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    given = {
        "transition_features": MODEL.transition_features, "reward_features": MODEL.reward_features,
        "initial": MODEL.initial, "horizon": MODEL.horizon, "transition_bound": MODEL.transition_bound,
        "transition_theta_bound": MODEL.transition_theta_bound, "reward_theta_bound": MODEL.reward_theta_bound,
        "sums_to_one": MODEL.sums_to_one, "stationary": MODEL.stationary, "reward_total": MODEL.reward_total,
    }  # fmt: skip
    np.savez(path, **given)
    assert fingerprint(deployment_model(Settings(model_file=path))) == fingerprint(MODEL)
    np.savez(path, **{**given, "horizon": MODEL.horizon + 1})
    assert fingerprint(deployment_model(Settings(model_file=path))) != fingerprint(MODEL)
    np.savez(path, **{**given, "colour": 1})
    with pytest.raises(InvalidInput, match="colour"):
        deployment_model(Settings(model_file=path))
    np.savez(path, horizon=3)
    with pytest.raises(InvalidInput, match="missing"):
        deployment_model(Settings(model_file=path))
    for content in (b"mood,message\n1,2\n", b"", b"PK"):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"must be a model file, or an \.npz file .* reticent fit"):
            deployment_model(Settings(model_file=path))
    with pytest.raises(InvalidInput, match="which does not exist"):
        deployment_model(Settings(model_file=tmp_path / "missing.npz"))


@pytest.mark.verify
def test_worlds_with_real_states_are_refused() -> None:
    with pytest.raises(InvalidInput, match="finitely many"):
        deployment_model(Settings(world="glucose:states=real"))


def test_all_missing_secrets_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETICENT_ADMIN_KEY", SECRET)
    settings = Settings(world="tutor")
    with pytest.raises(
        InvalidInput, match=r"^each of RETICENT_APP_KEY and RETICENT_USER_SECRET is missing or weak.*set each"
    ):
        settings.secret("user_secret")
    monkeypatch.setenv("RETICENT_USER_SECRET", SECRET)
    with pytest.raises(InvalidInput, match=r"^RETICENT_APP_KEY is missing or weak.*set it"):
        settings.secret("app_key")
