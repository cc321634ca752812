// SPDX-License-Identifier: Apache-2.0
/**
 * A check with the compiler: no condition, comparison or text of a user's value (`src/boundary.ts`), and no function that
 * takes anything is given one.
 *
 * `tsc` refuses the use of such a value as a number. It lets an object pass in a condition, in a template and as an argument
 * that may be anything; this refuses those. A comparison with `null` or `undefined` asks whether there is a value at all.
 *
 * The ways on from a user's value are few, and each is in a file of `WAYS_ON`: elsewhere, what a device makes of a value and
 * what a mechanism releases of it are refused too.
 */

import { API, type Checker, type Project } from "typescript/unstable/sync";
import { type Expression, type Node, type SourceFile, SyntaxKind } from "typescript/unstable/ast";
import * as is from "typescript/unstable/ast/is";

const HELD = /\b(Raw|Clipped)</;
const ANYTHING = /\b(any|unknown|object)\b/;
const EQUALITY = new Set([
  SyntaxKind.EqualsEqualsToken, SyntaxKind.EqualsEqualsEqualsToken, SyntaxKind.ExclamationEqualsToken,
  SyntaxKind.ExclamationEqualsEqualsToken,
]);
const TRUTH = new Set([
  SyntaxKind.AmpersandAmpersandToken, SyntaxKind.BarBarToken, SyntaxKind.AmpersandAmpersandEqualsToken,
  SyntaxKind.BarBarEqualsToken,
]);

/** Where what is in a user's value may be used, by what it is used with: what to read when a promise is reviewed. */
const WAYS_ON: Readonly<Record<string, readonly string[]>> = {
  onDevice: ["/src/episode.ts"],
  release: ["/src/messages.ts", "/src/report.ts", "/src/submission.ts"],
};

/** Methods of arrays that make a text of what is in them. */
const TEXTS = ["join", "toString", "toLocaleString"];

/** The lines (1-based) of files in the folder `part` of this package that are refused, by `tsc` or here, as `path:line`. */
export function refusedLines(config: string, part: string): Set<string> {
  const api = new API({ cwd: process.cwd() });
  try {
    const project = api.updateSnapshot({ openProjects: [config] }).getProjects()[0]!;
    const folder = process.cwd() + part;
    const names = project.program.getSourceFileNames().filter((name) => name.startsWith(folder));
    if (names.length === 0) throw new Error(`no file in ${folder}`);
    return new Set(names.flatMap((name) => refusedIn(project, name).map((line) => `${name.slice(folder.length)}:${line}`)));
  } finally {
    api.close();
  }
}

function refusedIn(project: Project, name: string): number[] {
  const file = project.program.getSourceFile(name)!;
  const places = project.program.getSemanticDiagnostics(name).map((wrong) => wrong.pos);
  const visit = (node: Node): void => {
    if (escapes(node, project.checker) || goesOn(node, project.checker, name)) places.push(node.getStart(file));
    node.forEachChild(visit);
  };
  visit(file);
  return places.map((position) => lineOf(file, position));
}

function lineOf(file: SourceFile, position: number): number {
  return file.text.slice(0, position).split("\n").length;
}

/** Whether a way on from a user's value is taken at `node` of a file that is none of those for it. */
function goesOn(node: Node, checker: Checker, name: string): boolean {
  if (!is.isPropertyAccessExpression(node)) return false;
  const allowed = Object.hasOwn(WAYS_ON, node.name.text) ? WAYS_ON[node.name.text] : undefined;
  return allowed !== undefined && !allowed.some((file) => name.endsWith(file)) && HELD.test(typeOf(node.expression, checker));
}

/** Whether something of a user's value is decided or shown at `node`. */
function escapes(node: Node, checker: Checker): boolean {
  const held = (one: Expression | undefined): boolean => one !== undefined && HELD.test(typeOf(one, checker));
  if (is.isIfStatement(node) || is.isWhileStatement(node) || is.isDoStatement(node)) return held(node.expression);
  if (is.isSwitchStatement(node) || is.isTemplateSpan(node)) return held(node.expression);
  if (is.isForStatement(node) || is.isConditionalExpression(node)) return held(node.condition);
  if (is.isPrefixUnaryExpression(node)) return held(node.operand);
  if (is.isAsExpression(node) || is.isThrowStatement(node)) return held(node.expression);
  if (is.isPropertyAccessExpression(node)) return TEXTS.includes(node.name.text) && held(node.expression);
  if (is.isBinaryExpression(node)) {
    const { kind } = node.operatorToken;
    if (TRUTH.has(kind)) return held(node.left);
    if (kind === SyntaxKind.PlusToken) return held(node.left) || held(node.right);
    return EQUALITY.has(kind) && !nothing(node.left) && !nothing(node.right) && (held(node.left) || held(node.right));
  }
  if (!is.isCallExpression(node) && !is.isNewExpression(node)) return false;
  const signature = checker.getResolvedSignature(node);
  return (node.arguments ?? []).some((given, place) => {
    if (!held(given) || signature === undefined) return false;
    const taken = checker.getParameterType(signature, place) ?? checker.getRestTypeOfSignature(signature);
    return taken !== undefined && ANYTHING.test(checker.typeToString(taken));
  });
}

function nothing(one: Expression): boolean {
  return one.kind === SyntaxKind.NullKeyword || (is.isIdentifier(one) && one.text === "undefined");
}

function typeOf(one: Expression, checker: Checker): string {
  const found = checker.getTypeAtLocation(one);
  return found === undefined ? "" : checker.typeToString(found);
}
