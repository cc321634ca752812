# SPDX-License-Identifier: Apache-2.0
"""One device of one user: act by the published policy, observe, and let the client send what the trust model allows.

    python examples/device.py ann                  # joint model: the trajectory is sent, the service keeps sums of it
    python examples/device.py ann --trust local    # local model: only a noised report leaves, and only if ε is kept

Needs a running service, such as ``make serve-demo`` or ``reticent serve`` gives, and NumPy. What the user does is made up
here by chance: put your app in the place of ``respond``.
"""

from __future__ import annotations

import argparse
import os
import random

from reticent_client import Client


def main() -> None:
    """Play one episode and say what became of it."""
    parser = argparse.ArgumentParser(description="One user's episode on their device.")
    parser.add_argument("user")
    parser.add_argument("--url", default="http://127.0.0.1:8400")
    parser.add_argument("--trust", choices=("joint", "local"))
    parser.add_argument("--epsilon", type=float, help="refuse to send a report that is less private (local model)")
    options = parser.parse_args()
    key = os.environ.get("RETICENT_APP_KEY", "dev-app-key")
    with Client(options.url, key, trust=options.trust, epsilon=options.epsilon) as client:
        print(client.status()["promise"])
        with client.episode(options.user) as episode:
            states = client.billboard(episode.version).states
            state = random.randrange(states)
            for _ in range(episode.horizon):
                action = episode.act(state)
                print(f"{client.names.state(state)}: {client.names.action(action)}")  # on their own screen alone
                reward, state = respond(action, states)
                episode.observe(reward, state)
        why = "" if episode.learning else f" ({episode.reason})"
        print(f"{options.user}: {episode.status}{why}, under version {episode.version} of the policy")


def respond(action: int, states: int) -> tuple[float, int]:
    """Somebody's reaction to an action: a reward in [0, 1], and the state they are in afterwards."""
    return float(random.random() < 0.3 + 0.1 * (action % 3)), random.randrange(states)


if __name__ == "__main__":
    main()
