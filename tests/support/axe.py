# SPDX-License-Identifier: Apache-2.0
"""axe-core in a real browser: what keeps people from using a page. Installed beside the TypeScript client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headless_browser

AXE = Path(__file__).parents[2] / "clients" / "typescript" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")

RUN = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.map((rule) => ({
    impact: rule.impact, id: rule.id, help: rule.help,
    where: rule.nodes.map((node) => `${node.target.join(" ")}: ${node.failureSummary}`),
  }));
}"""


def why_not() -> str | None:
    """What is missing to check pages; None if nothing is."""
    if not AXE.exists():
        return "axe-core is not installed (install Node 20 and npm, then npm install in clients/typescript)"
    return headless_browser.why_not()


def grave_findings(page: Any) -> list[str]:
    """What axe finds serious or critical on an open page, one line each."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        f"{finding['impact']}: {finding['help']} ({finding['id']}) at {place}"
        for finding in page.evaluate(RUN)
        if finding["impact"] in GRAVE
        for place in finding["where"]
    ]
