# SPDX-License-Identifier: Apache-2.0
"""Which modules are mutated, and the tests that are to see every change of each: the quick ones that are about it."""

from __future__ import annotations

import dataclasses

CLIENT = "clients/python/src/reticent_client"
WIRE = "clients/python/src/reticent_wire"
PRIVACY = "src/reticent/privacy"
SERVICE = "src/reticent/service"
ON_DEVICES = "clients/python/tests"


@dataclasses.dataclass(frozen=True)
class Target:
    """A module and its tests.

    Attributes:
      module, tests: paths from the root of the repository.
      choice: which of the tests, as pytest's ``-k``; ``marks``: likewise, as its ``-m``; by default the quick suite's.
      most: of more mutants than these a sample is tried, always the same one.
    """

    module: str
    tests: tuple[str, ...]
    choice: str = ""
    marks: str = ""
    most: int = 100


SENSITIVITY = "tests/privacy/test_sensitivity.py"
CONTRIBUTIONS = f"{ON_DEVICES}/test_wire_contributions.py"
NO_DRAWS = "not noise_of_the_published_scale"
"""Of the contributions' tests those that draw no noise: that takes seconds, and is about the sampler."""
LEDGER = "tests/privacy/test_ledger.py"
PROTOCOL = "tests/privacy/trust/test_shuffle_protocol.py"
TRUST_MODELS = "tests/privacy/trust/test_trust_models.py"
ACCOUNTS, COUNTERS = "tests/privacy/accounting", "tests/privacy/counters"
DEPLOYMENT = "tests/service/test_service_deployment.py"
NARROW = (
    "(rounds_end or late_report or release_is_the_sum or second_contribution or expired or after_the_end) "
    "and not postgres"
)
"""Tests of a deployment on a file, of a second or so each."""


def of_service(*names: str) -> tuple[str, ...]:
    """Files of the service's tests."""
    return tuple(f"tests/service/test_{name}.py" for name in names)


TARGETS = {
    # -- what leaves a device
    "clipping": Target(
        f"{WIRE}/clipping.py", (CONTRIBUTIONS, SENSITIVITY),
        "no_vector or short_vectors or every_number or clip_norm or clip_interval",
    ),
    "grid": Target(
        f"{WIRE}/grid.py", (CONTRIBUTIONS, "tests/privacy/test_noise.py"),
        "rounding or steps or fine or grid or quantiz or dither",
    ),
    "packing": Target(f"{WIRE}/packing.py", (CONTRIBUTIONS, SENSITIVITY), "pack", most=20),
    "pattern": Target(
        f"{WIRE}/participation.py", (f"{ON_DEVICES}/test_device_budget.py", "tests/privacy/test_participation.py"),
        "allowed or asked_for",
    ),
    "promise": Target(f"{WIRE}/promise.py", (CONTRIBUTIONS,), NO_DRAWS, most=30),
    "counts-form": Target(
        f"{WIRE}/forms/counts.py", (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py"), NO_DRAWS, most=25,
    ),
    "regressions-form": Target(
        f"{WIRE}/forms/regressions.py", (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py", SENSITIVITY),
        f"not clip and not pack and {NO_DRAWS}", most=30,
    ),
    "score-form": Target(
        f"{WIRE}/forms/score.py", (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py"), NO_DRAWS, most=30,
    ),
    "sampler": Target(f"{CLIENT}/discrete_gaussian.py", (f"{ON_DEVICES}/test_device_noise.py",), most=30),
    "budget": Target(f"{CLIENT}/budget.py", (f"{ON_DEVICES}/test_device_budget.py",)),
    "budget_storage": Target(f"{CLIENT}/budget_storage.py", (f"{ON_DEVICES}/test_device_budget.py",)),
    "private_file": Target(
        f"{CLIENT}/private_file.py", (f"{ON_DEVICES}/test_device_files.py", f"{ON_DEVICES}/test_device_budget.py")
    ),
    "boundary": Target(
        f"{WIRE}/boundary.py", ("tests/client/test_user_value_types.py", *of_service("service_user_values")), "not mypy"
    ),
    "kinds-form": Target(
        f"{WIRE}/forms/kinds.py",
        (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py", f"{ON_DEVICES}/test_wire_versions.py"), NO_DRAWS, most=12,
    ),
    "residual-form": Target(
        f"{WIRE}/forms/score_residual.py",
        (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py", f"{ON_DEVICES}/test_wire_versions.py"), NO_DRAWS, most=12,
    ),
    "factors-form": Target(
        f"{WIRE}/forms/factors.py",
        (
            CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py", f"{ON_DEVICES}/test_wire_versions.py",
            *of_service("service_factors"),
        ),
        f"{NO_DRAWS} and not means_of_users and not embedded", most=12,
    ),
    "history": Target(
        f"{WIRE}/history.py", (f"{ON_DEVICES}/test_wire_vectors.py", f"{ON_DEVICES}/test_wire_history.py"), "history",
        most=12,
    ),
    "stays": Target(
        f"{CLIENT}/stays.py", (f"{ON_DEVICES}/test_device_stays.py", f"{ON_DEVICES}/test_device_files.py"),
        "not synced", most=12,
    ),
    "shuffler": Target(
        f"{CLIENT}/shuffler.py", ("tests/client/test_client_shuffle.py",), "not law", most=12,
    ),
    "waiting_times": Target(f"{SERVICE}/waiting_times.py", of_service("waiting_times"), "what_is or cut_off", most=12),
    "rates": Target(
        f"{SERVICE}/http/rates.py",
        (*of_service("service_guard"), *of_service("held_up_reports")),
        "rate or counts_as or proves or own or turns_no or remembered", most=20,
    ),
    "members": Target(
        f"{SERVICE}/http/members.py", of_service("group_requests", "service_malformed"),
        "not postgres and (member or group or out_of_range or written or cut or quotes)", most=12,
    ),
    "fast_path": Target(
        f"{SERVICE}/http/fast_path.py", of_service("fast_path", "held_up_reports", "service_malformed"),
        "not postgres and not gathered", most=12,
    ),
    "trajectory": Target(f"{WIRE}/trajectory.py", (f"{ON_DEVICES}/test_wire_trajectories.py",), most=12),
    "client": Target(
        f"{CLIENT}/client.py",
        tuple(f"{ON_DEVICES}/test_device_{name}.py" for name in ("hostile_service", "messages", "groups")), most=12,
    ),
    "group": Target(
        f"{CLIENT}/group.py",
        (f"{ON_DEVICES}/test_device_groups.py", f"{ON_DEVICES}/test_device_stays.py", "tests/client/test_client_groups.py"),
        "group or member or request or answer or leaver", most=20,
    ),
    "client_batching": Target(
        f"{CLIENT}/micro_batching.py",
        (
            f"{ON_DEVICES}/test_device_micro_batching.py", *of_service("held_up_reports"),
            "tests/client/test_client_micro_batching.py",
        ),
        "(come_again or gathered_report or bounded or one_tick or members_own) and not postgres", most=16,
    ),
    "tickets": Target(
        f"{CLIENT}/tickets.py", (f"{ON_DEVICES}/test_device_micro_batching.py", *of_service("one_request")),
        "ticket and not postgres", most=12,
    ),
    "plans": Target(f"{WIRE}/plans.py", (f"{ON_DEVICES}/test_device_hostile_service.py",)),
    "shuffling": Target(f"{WIRE}/shuffling.py", (PROTOCOL, f"{ON_DEVICES}/test_device_messages.py"), most=40),
    "shuffle-rules": Target(
        f"{WIRE}/shuffle_rules.py", (PROTOCOL, f"{ON_DEVICES}/test_device_messages.py"), most=25,
    ),
    # -- sensitivities, noise, accounts
    "sensitivity": Target(f"{PRIVACY}/sensitivity.py", (SENSITIVITY,), "not clip and not pack", most=30),
    "noise": Target(f"{PRIVACY}/noise.py", ("tests/privacy/test_noise.py",), "not forked", most=60),
    "guarantee": Target(f"{PRIVACY}/guarantee.py", (LEDGER, "tests/privacy/test_guarantee.py"), most=30),
    "ledger": Target(f"{PRIVACY}/ledger.py", (LEDGER,)),
    "participation": Target(f"{PRIVACY}/participation.py", ("tests/privacy/test_participation.py",), most=40),
    "late-reports": Target(f"{PRIVACY}/late_reports.py", ("tests/privacy/test_late_reports.py",)),
    "sums": Target(f"{PRIVACY}/sums.py", ("tests/privacy/test_sums.py", TRUST_MODELS, PROTOCOL), most=25),
    "account": Target(f"{PRIVACY}/accounting/account.py", (LEDGER,)),
    "gaussian": Target(f"{PRIVACY}/accounting/gaussian.py", (f"{ACCOUNTS}/test_gaussian_accountant.py",), most=40),
    "binomial": Target(f"{PRIVACY}/accounting/binomial.py", (f"{ACCOUNTS}/test_binomial_account.py",), most=30),
    "guessing": Target(f"{PRIVACY}/accounting/guessing.py", (f"{ACCOUNTS}/test_guessing.py",), most=40),
    "degenerate-noise": Target(f"{PRIVACY}/degenerate_noise.py", ("tests/privacy/test_degenerate_noise.py",), most=20),
    # -- counters and trust models
    "tree": Target(
        f"{PRIVACY}/counters/tree.py", (COUNTERS,), "every_name or (tree and not (table or plain_tree_is or 64))", most=40,
    ),
    "epochs": Target(
        f"{PRIVACY}/counters/epochs.py", (COUNTERS,), "every_name or (epochs and not (schedule or 64))", most=30,
    ),
    "toeplitz": Target(
        f"{PRIVACY}/counters/toeplitz.py", (COUNTERS,), "every_name or (toeplitz and not (table or 64))", most=25,
    ),
    "blt": Target(
        f"{PRIVACY}/counters/blt.py", (COUNTERS,),
        "(blt and not (table or fitted or million or single or 64 or 700 or 1000)) or damaged or unfitted", most=20,
    ),
    "running-sum": Target(f"{PRIVACY}/counters/running_sum.py", (TRUST_MODELS, COUNTERS), "local or running or frozen"),
    "separate": Target(
        f"{PRIVACY}/counters/separate.py",
        ("tests/privacy/test_participation.py", f"{COUNTERS}/test_separate_rounds.py"), "separate",
    ),
    "local": Target(f"{PRIVACY}/trust/local.py", (TRUST_MODELS,)),
    "shuffle": Target(f"{PRIVACY}/trust/shuffle.py", (TRUST_MODELS, PROTOCOL)),
    "trust": Target(f"{PRIVACY}/trust/trust.py", (TRUST_MODELS,)),
    # -- the deployed path
    "mechanism": Target(
        f"{SERVICE}/mechanism.py",
        (DEPLOYMENT, *of_service("embedded", "deployed_noise", "service_returning", "service_shuffle", "service_privacy")),
        f"({NARROW}) or several_contributions or too_coarse or not_exact or pattern_is_said "
        "or not_cover or unless_it_was_lost or agents_memory or know_itself or that_refers_to "
        "or cannot_deploy or within_delta or proof_says or half_of_the_noise",
        most=25,
    ),
    "deployable": Target(
        f"{SERVICE}/deployable.py",
        (DEPLOYMENT, *of_service("embedded", "deployed_noise", "service_returning")),
        f"({NARROW}) or several_contributions or cannot_be_deployed or not_exact or block_of_a_tree or in_order_only "
        "or within_delta or proof_says or real_states_are_not",
    ),
    "rounds": Target(
        f"{SERVICE}/rounds/close.py",
        (DEPLOYMENT, *of_service("clocks", "service_rollback", "service_score", "service_privacy")),
        f"({NARROW}) or last_round_waits or last_user_has_come or quick_succession or short_wait or that_is_set "
        "or another_process or overdue or restored_backup or another_past or genuine_token or published_after or damaged "
        "or between_two or half_of_the_noise or keeps_its_release", most=20,
    ),
    "steady_time": Target(
        f"{SERVICE}/rounds/steady_time.py", of_service("clocks"), "corrected or believed or begins_anew or minute_and"
    ),
    "release": Target(
        f"{SERVICE}/rounds/release.py",
        (DEPLOYMENT, *of_service("service_rollback", "service_score", "service_control", "service_canaries")),
        f"({NARROW}) or ((restored_backup or another_past or published_after or between_two or control or canaries_have "
        "or reference_of) and not postgres)", most=12,
    ),
    "restore": Target(
        f"{SERVICE}/durability/restore.py", of_service("backup_and_restore", "erasure"),
        "not postgres and (restore or backup or witness or journal or killed or shuffler or pattern or batch or brings "
        "or before_the_first)",
        most=12,
    ),
    "erasure": Target(
        f"{SERVICE}/durability/erasure.py", of_service("erasure"), "not postgres and not running and not at_once", most=12
    ),
    "event_streams": Target(f"{SERVICE}/http/event_streams.py", of_service("event_streams"), most=12),
    "readiness": Target(f"{SERVICE}/http/readiness.py", of_service("readiness"), "not postgres and not server", most=12),
    "admissions": Target(
        f"{SERVICE}/rounds/admit.py",
        (DEPLOYMENT, *of_service("service_groups", "service_returning", "service_score", "service_rollback", "erasure")),
        f"({NARROW}) or ((collides or stopped_deployment or as_if or more_admissions or bad_member or twice_in "
        "or pattern_of or round_refers or somebody_elses or her_rows) and not postgres)", most=20,
    ),
    "submissions": Target(
        f"{SERVICE}/rounds/submit.py", (DEPLOYMENT, *of_service("service_groups", "service_rollback", "service_score")),
        f"({NARROW}) or ((group_of_submissions or cannot_be_formed or reference_of or genuine_token or between_two "
        "or another_reference or empty_contribution) and not postgres) or same_time_counts_once", most=20,
    ),
    "micro_batching": Target(
        f"{SERVICE}/processes/micro_batching.py", of_service("service_groups", "held_up_reports"),
        "during_a_call or call_that_fails or join_together or how_long_a_report or crowd_is", most=20,
    ),
}  # fmt: skip
