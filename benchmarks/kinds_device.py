# SPDX-License-Identifier: Apache-2.0
"""What a device of ``private-kinds`` downloads, and how long one step of it takes, in Python and in TypeScript, for either
kind of plan.

    (cd clients/typescript && npm test)      # builds the client that the second figure needs
    python benchmarks/kinds_device.py

A step is one action and one observation, without network, in processor time. Sizes are those of the JSON answers, not
compressed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from reticent.privacy.noise import SecureNoise
from reticent.service.mechanism import make_mechanism
from reticent.worlds.kinds import random_kinds

BUILT = Path(__file__).parent.parent / "clients" / "typescript" / "build" / "src" / "wire" / "index.js"
STEPS = 20_000
SCRIPT = """
import { readFileSync } from "node:fs";
const { Billboard, Model } = await import(process.argv[1]);
const { model, billboard } = JSON.parse(readFileSync(process.argv[2]));
const published = Model.read(model);
const known = published.rules.form.belief(published, Billboard.read(billboard), null);
const { horizon, states } = model;
const spent = () => process.cpuUsage().user + process.cpuUsage().system;
const times = [0, 1, 2].map(() => {
  const begun = spent();
  for (let i = 0; i < STEPS; i++) {
    const action = known.act(i % horizon, i % states);
    known.observe(i % states, action, i % 2, (7 * i) % states);
  }
  return (spent() - begun) / STEPS;
});
console.log(times.sort((a, b) => a - b)[1].toFixed(2));
""".replace("STEPS", str(STEPS))


def measure(spec: str) -> None:
    mechanism = make_mechanism(spec, random_kinds(horizon=10, seed=1).model, 2_000, SecureNoise())
    board = mechanism.billboard(0, mechanism.agent.init())
    published, answer = mechanism.published, board.to_json(final=False, model="")
    print(f"\n{spec}\nmodel, once: {len(json.dumps(published.to_json())) / 1000:.0f} kB")
    print(f"billboard, per release: {len(json.dumps(answer)) / 1000:.0f} kB")
    times = []
    for _ in range(3):
        known = published.rules.form.belief(published, board.published)
        begun = time.process_time()
        for i in range(STEPS):
            action = known.act(i % 10, i % 20)
            known.observe(i % 20, action, float(i % 2), (7 * i) % 20)
        times.append((time.process_time() - begun) / STEPS * 1e6)
    print(f"Python: {sorted(times)[1]:.0f} µs a step")
    if shutil.which("node") is None or not BUILT.exists():
        print("TypeScript: not measured; build clients/typescript first")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"model": published.to_json(), "billboard": answer}, file)
        file.flush()
        command = ["node", "--input-type=module", "-e", SCRIPT, BUILT.as_uri(), file.name]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
    print(f"TypeScript: {found.stdout.strip()} µs a step")


def main() -> None:
    for spec in ("private-kinds", "private-kinds:plan=point-based"):
        measure(spec)


if __name__ == "__main__":
    main()
