"""Which modules are mutated, and the tests that are to see every change of each: the quick ones that are about it."""

from __future__ import annotations

import dataclasses

CLIENT = "clients/python/src/reticent_client"
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
LEDGER = "tests/privacy/test_ledger.py"
PROTOCOL = "tests/privacy/trust/test_shuffle_protocol.py"
TRUST_MODELS = "tests/privacy/trust/test_trust_models.py"
COUNTERS = "tests/privacy/counters"
DEPLOYMENT, RETURNING = "tests/service/test_service_deployment.py", "tests/service/test_service_returning.py"
ALONE = "not postgres and not threads"

TARGETS = {
    # -- what leaves a device
    "clipping": Target(
        f"{CLIENT}/wire/clipping.py", (CONTRIBUTIONS, SENSITIVITY),
        "no_vector or short_vectors or every_number or clip or interval",
    ),
    "grid": Target(
        f"{CLIENT}/wire/grid.py", (CONTRIBUTIONS, "tests/privacy/test_noise.py"),
        "rounding or steps or fine or grid or quantiz or dither",
    ),
    "packing": Target(f"{CLIENT}/wire/packing.py", (CONTRIBUTIONS, SENSITIVITY), "pack"),
    "pattern": Target(
        f"{CLIENT}/wire/participation.py", (f"{ON_DEVICES}/test_device_budget.py", "tests/privacy/test_participation.py"),
        "allowed or asked_for",
    ),
    "promise": Target(f"{CLIENT}/wire/promise.py", (CONTRIBUTIONS,)),
    "counts-form": Target(f"{CLIENT}/wire/forms/counts.py", (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py")),
    "regressions-form": Target(
        f"{CLIENT}/wire/forms/regressions.py", (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py", SENSITIVITY),
        "not clip and not pack", most=80,
    ),
    "score-form": Target(
        f"{CLIENT}/wire/forms/score.py", (CONTRIBUTIONS, f"{ON_DEVICES}/test_wire_vectors.py"), most=80,
    ),
    "sampler": Target(f"{CLIENT}/discrete_gaussian.py", (f"{ON_DEVICES}/test_device_noise.py",)),
    "budget": Target(f"{CLIENT}/budget.py", (f"{ON_DEVICES}/test_device_budget.py",)),
    "shuffling": Target(f"{CLIENT}/wire/shuffling.py", (PROTOCOL, f"{ON_DEVICES}/test_device_messages.py"), most=80),
    "shuffle-rules": Target(
        f"{CLIENT}/wire/shuffle_rules.py", (PROTOCOL, f"{ON_DEVICES}/test_device_messages.py"), most=60,
    ),
    # -- sensitivities, noise, accounts
    "sensitivity": Target(f"{PRIVACY}/sensitivity.py", (SENSITIVITY,), "not clip and not pack"),
    "noise": Target(f"{PRIVACY}/noise.py", ("tests/privacy/test_noise.py",), "not forked", most=120),
    "guarantee": Target(f"{PRIVACY}/guarantee.py", (LEDGER, "tests/privacy/test_origin_of_candidates.py")),
    "ledger": Target(f"{PRIVACY}/ledger.py", (LEDGER,)),
    "participation": Target(f"{PRIVACY}/participation.py", ("tests/privacy/test_participation.py",), most=130),
    "arrivals": Target(f"{PRIVACY}/arrivals.py", ("tests/privacy/test_arrivals.py",)),
    "sums": Target(f"{PRIVACY}/sums.py", (TRUST_MODELS, PROTOCOL)),
    "account": Target(f"{PRIVACY}/accounting/account.py", (LEDGER,)),
    "gaussian": Target(f"{PRIVACY}/accounting/gaussian.py", ("tests/privacy/accounting/test_gaussian_accountant.py",)),
    "binomial": Target(f"{PRIVACY}/accounting/binomial.py", ("tests/privacy/accounting/test_binomial_account.py",)),
    "guessing": Target(f"{PRIVACY}/accounting/guessing.py", ("tests/privacy/accounting/test_guessing.py",)),
    # -- counters and trust models
    "tree": Target(f"{PRIVACY}/counters/tree.py", (COUNTERS,), "tree", most=80),
    "epochs": Target(f"{PRIVACY}/counters/epochs.py", (COUNTERS,), "epochs"),
    "toeplitz": Target(f"{PRIVACY}/counters/toeplitz.py", (COUNTERS,), "toeplitz"),
    "running-sum": Target(f"{PRIVACY}/counters/running_sum.py", (TRUST_MODELS, COUNTERS), "local or running"),
    "separate": Target(f"{PRIVACY}/counters/separate.py", ("tests/privacy/test_participation.py",), "separate"),
    "local": Target(f"{PRIVACY}/trust/local.py", (TRUST_MODELS,)),
    "shuffle": Target(f"{PRIVACY}/trust/shuffle.py", (TRUST_MODELS, PROTOCOL)),
    "trust": Target(f"{PRIVACY}/trust/trust.py", (TRUST_MODELS,)),
    # -- the deployed path
    "mechanism": Target(
        f"{SERVICE}/mechanism.py", ("tests/service/test_deployed_noise.py", "tests/service/test_embedded.py", DEPLOYMENT),
        ALONE, most=60,
    ),
    "rounds": Target(f"{SERVICE}/rounds.py", (DEPLOYMENT,), ALONE, most=60),
    "admissions": Target(f"{SERVICE}/admissions.py", (DEPLOYMENT, RETURNING), ALONE, most=60),
    "submissions": Target(f"{SERVICE}/submissions.py", (DEPLOYMENT, RETURNING), ALONE, most=60),
    "gathering": Target(f"{SERVICE}/gathering.py", ("tests/service/test_service_shuffle.py",), ALONE),
}  # fmt: skip
