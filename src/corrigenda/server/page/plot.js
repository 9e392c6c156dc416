// The strip plot: every claim's signed score on one line from -1 to 1, with µ, σ and the threshold on both sides.

import { count, el, number, signed, svg } from "./dom.js";
import { tallyText, verdictOf } from "./verdicts.js";

const SIDE = 14; // room left and right of -1 and 1, in px
const TOP = 40; // for the labels of µ and τ
const STRIP = 96; // for the marks
const BOTTOM = 36; // for the axis
const SPACING = 12; // between stacked marks
const MOST_APART = 7; // marks above each other that the strip has room for

/** Return {node, draw}: `draw(report, chosen)` draws the plot anew. A new width redraws it, too. */
export function stripPlot(on) {
  const node = el("div", { class: "plot" });
  let [report, chosen, width] = [null, null, 0];
  const render = () => {
    if (report !== null && width > 0) node.replaceChildren(...picture(report, chosen, width, on));
  };
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now !== width) {
      width = now;
      render();
    }
  }).observe(node);
  const draw = (newReport, newChosen) => {
    [report, chosen] = [newReport, newChosen];
    render();
  };
  return { node, draw };
}

function picture(report, chosen, width, on) {
  const x = (score) => SIDE + ((score + 1) / 2) * (width - 2 * SIDE);
  const height = TOP + STRIP + BOTTOM;
  const scored = report.claims.map((claim, index) => ({ ...claim, index })).filter((claim) => claim.signed !== null);
  const missing = report.claims.length - scored.length;
  const plot = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary(report, scored) },
    axis(x, width),
    ...thresholds(report.decision, x, width),
    ...marks(scored, x, chosen, on),
  );
  const notes = [
    report.decision?.mu != null && "Shaded: µ ± σ.",
    missing > 0 && `${missing} of ${count(report.claims.length, "claim")} ${missing === 1 ? "has" : "have"} no score.`,
  ].filter(Boolean);
  return notes.length > 0 ? [plot, el("p", { class: "hint" }, notes.join(" "))] : [plot];
}

function axis(x, width) {
  const y = TOP + STRIP;
  const tick = (score, label, anchor) => [
    svg("line", { x1: x(score), x2: x(score), y1: y, y2: y + 5 }),
    svg("text", { x: x(score), y: y + 18, "text-anchor": anchor }, number(score, 0)),
    svg("text", { x: x(score), y: y + 31, "text-anchor": anchor, class: "faint" }, label),
  ];
  return svg(
    "g",
    { class: "axis" },
    svg("rect", { class: "strip", x: 0, y: TOP, width, height: STRIP, rx: 6 }),
    svg("line", { x1: x(0), x2: x(0), y1: TOP, y2: y, class: "zero" }),
    svg("line", { x1: x(-1), x2: x(1), y1: y, y2: y }),
    tick(-1, "contradiction", "start"),
    tick(0, "neutral", "middle"),
    tick(1, "entailment", "end"),
  );
}

function thresholds(decision, x, width) {
  if (decision === null || decision.mu === null) return [];
  const parts = [];
  const { mu, sigma, tau } = decision;
  const clip = (score) => Math.min(Math.max(score, -1), 1);
  parts.push(
    svg("rect", {
      class: "spread",
      x: x(clip(mu - sigma)),
      y: TOP,
      width: x(clip(mu + sigma)) - x(clip(mu - sigma)),
      height: STRIP,
    }),
    line(x(mu), "mu", `µ ${number(mu)}`, 12, width),
  );
  if (tau !== null) {
    const sides = [[-1, "−τ"]];
    // `conformal` bounds flags only: what supports a claim there is another threshold, which no report states.
    if (decision.policy !== "conformal") sides.push([1, "+τ"]);
    for (const [side, name] of sides) {
      const at = side * tau;
      if (Math.abs(at) <= 1) parts.push(line(x(at), "tau", `${name} ${number(at)}`, 28, width));
      else parts.push(beyond(at, `${name} ${number(at)}`, width));
    }
  }
  return parts;
}

function line(at, look, label, y, width) {
  const anchor = at < 40 ? "start" : at > width - 40 ? "end" : "middle";
  return svg(
    "g",
    { class: look },
    svg("line", { x1: at, x2: at, y1: y + 5, y2: TOP + STRIP }),
    svg(
      "text",
      {
        x: anchor === "start" ? Math.max(at - 8, 1) : anchor === "end" ? Math.min(at + 8, width - 1) : at,
        y,
        "text-anchor": anchor,
      },
      label,
    ),
  );
}

/** A threshold that lies outside the scale: an arrow at its end, so that it is seen to be out of reach. */
function beyond(at, label, width) {
  return svg(
    "g",
    { class: "tau" },
    svg(
      "text",
      { x: at < 0 ? 1 : width - 1, y: 28, "text-anchor": at < 0 ? "start" : "end" },
      at < 0 ? `← ${label}` : `${label} →`,
    ),
  );
}

/** Place the marks so that equal scores stand above each other; where there are many, they close up to a bar. */
function marks(scored, x, chosen, on) {
  const columns = new Map();
  for (const claim of scored) {
    const column = Math.round(x(claim.signed) / SPACING);
    columns.set(column, [...(columns.get(column) ?? []), claim]);
  }
  const [points, labels] = [[], []];
  for (const claims of columns.values()) {
    const dense = claims.length > MOST_APART;
    const step = dense ? (STRIP - 3.5 * SPACING) / (claims.length - 1) : SPACING;
    const first = dense ? TOP + 2.5 * SPACING : TOP + STRIP / 2 - (SPACING * (claims.length - 1)) / 2;
    claims.forEach((claim, row) => {
      const isChosen = claim.index === chosen;
      const looks = `point v-${claim.verdict}${isChosen ? " chosen" : ""}${dense ? " dense" : ""}`;
      points.push({ isChosen, node: mark(claim, looks, x(claim.signed), first + step * row, on) });
    });
    if (dense) {
      const at = x(claims[0].signed);
      labels.push(svg("text", { x: at, y: TOP + 15, "text-anchor": "middle" }, String(claims.length)));
    }
  }
  points.sort((a, b) => a.isChosen - b.isChosen); // the chosen one last, so that it lies on top
  return [...points.map((point) => point.node), ...labels];
}

const SHAPES = {
  supported: () => svg("circle", { r: 4.5 }),
  contradicted: () => svg("path", { d: "M-4.5-4.5 4.5 4.5M-4.5 4.5 4.5-4.5" }),
  unverified: () => svg("path", { d: "M0-5.5 5.5 0 0 5.5-5.5 0Z" }),
};

function mark(claim, looks, x, y, on) {
  const shape = (SHAPES[claim.verdict] ?? SHAPES.unverified)();
  const title = `Claim ${claim.index + 1}, ${verdictOf(claim.verdict).word}, ${signed(claim.signed)}`;
  return svg(
    "g",
    {
      class: looks,
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
      "data-claim": claim.index,
      onclick: () => on.choose(claim.index),
    },
    svg("title", {}, title),
    svg("circle", { class: "target", r: 10 }),
    shape,
  );
}

function summary(report, scored) {
  if (scored.length === 0) return "No claim has a score.";
  const values = scored.map((claim) => claim.signed);
  const decision = report.decision;
  const parts = [
    `Signed scores of ${scored.length} claims, from ${number(Math.min(...values))} to ${number(Math.max(...values))}`,
    decision?.mu != null ? `mean µ ${number(decision.mu)}, standard deviation σ ${number(decision.sigma)}` : null,
    decision?.tau != null ? `threshold τ ${number(decision.tau)}` : null,
    tallyText(report.claims),
  ];
  return `${parts.filter(Boolean).join("; ")}.`;
}
