// Deciding anew: a choice of policy and a slider, sent to the server with the stored scores. No model runs.

import { decide } from "./api.js";
import { el, number, put, say } from "./dom.js";
import { problemOf } from "./problems.js";
import { tallyText } from "./verdicts.js";

const WAIT_MS = 150; // after the last movement of the slider, before the server is asked

const STEP = 0.01;
const MOST = { k: 3, threshold: 1 }; // the slider's end, unless the report has more
const LABELS = { k: "k", threshold: "Threshold" };
// What each policy means, and the number that decides under it.
const POLICIES = {
  bounded: {
    moves: "k",
    means: "τ = µ + kσ, kept between a floor and a ceiling, so that one false claim among true ones is found.",
  },
  fixed: { moves: "threshold", means: "The same threshold for every answer, whatever its other scores." },
  paper: {
    moves: "k",
    means: "τ = µ + kσ exactly as published. It can be out of reach: a few false claims among many true ones pass.",
  },
  conformal: {
    moves: "threshold",
    means: "A threshold calibrated so that true claims are seldom flagged. It holds only as it was calibrated.",
  },
};

/**
 * Return {node, stop} for the controls over `original`, the report as it came from the run. `onDecided(report)` gets
 * each report that the server decided anew, and the original one on a reset. `onRerun({policy, k, threshold})` runs all
 * again; what is null there is left to the server.
 */
export function decisionControls(original, onDecided, onRerun) {
  const start = original.decision;
  let [timer, running] = [null, null];
  // By `key`: numbers of the run and those that were moved to; and the server's own, as far as it has told them, null
  // where it has none.
  let { chosen, said } = asItWasRun(start);

  const policy = el("select", { id: "decide-policy", onchange: () => chosePolicy() });
  const own = POLICIES[start.policy] === undefined; // made by whoever runs the server: it has no name to ask by
  for (const name of [...(own ? [start.policy] : []), ...Object.keys(POLICIES)]) {
    policy.append(el("option", { value: name }, name));
  }
  const slider = el("input", {
    id: "decide-number",
    type: "range",
    min: 0,
    step: STEP,
    "aria-describedby": "decide-why",
    oninput: () => moved(),
  });
  const name = el("label", { for: "decide-number" });
  const shown = el("span", { class: "value", "aria-hidden": "true" });
  const why = el("p", { class: "hint", id: "decide-why" });
  const means = el("p", { class: "hint" });
  const note = el("p", { class: "hint note" });
  const trouble = el("p", { class: "mistake", role: "alert" });
  const back = el("button", { type: "button", class: "plain", onclick: () => reset() }, "As it was run");
  const again = el("button", { type: "button", class: "plain", onclick: () => rerun() }, "Run again with this");
  const actions = el("div", { class: "actions" }, back, again);

  const moves = () => POLICIES[policy.value]?.moves ?? null;
  const key = () => (moves() === "k" ? "k" : policy.value); // a threshold means another thing under each policy
  const value = () => (moves() === null ? null : (chosen[key()] ?? said[key()] ?? null));
  /** The chosen number as the API takes it; nothing where it is left to the server. */
  const choice = () => (moves() === null || chosen[key()] === undefined ? {} : { [moves()]: chosen[key()] });

  /** Show the policy's number, or why there is none to move. */
  const fit = () => {
    const now = value();
    put(name, LABELS[moves()] ?? "No number");
    slider.max = Math.max(MOST[moves()] ?? 1, Math.ceil(now ?? 0));
    if (now !== null) slider.value = String(now);
    slider.disabled = now === null;
    put(shown, number(now));
    put(why, now === null && whyNot(policy.value, said[key()] !== undefined));
    why.hidden = now !== null;
    put(means, POLICIES[policy.value]?.means);
  };

  const ask = (wait) => {
    clearTimeout(timer);
    timer = setTimeout(send, wait);
  };

  const chosePolicy = () => {
    if (moves() === null) {
      reset();
    } else {
      fit();
      ask(0);
    }
  };

  const moved = () => {
    chosen[key()] = Number(slider.value);
    fit();
    ask(WAIT_MS);
  };

  const send = async () => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    try {
      const report = await decide({ report: original, policy: policy.value, ...choice() }, mine.signal);
      if (running !== mine) return;
      if (chosen[key()] === undefined) said[key()] = report.decision?.[moves()] ?? null;
      fit();
      put(trouble);
      tell(report);
      onDecided(report);
      const at = value() === null ? "" : `, ${moves()} ${number(value())}`;
      say(`${policy.value}${at}: ${tallyText(report.claims)}`);
    } catch (error) {
      if (error.name === "AbortError" || running !== mine) return;
      const problem = problemOf(error);
      put(trouble, `${problem.title}. ${problem.said || problem.remedy} The verdicts are those of before.`);
    }
  };

  const tell = (report) => {
    const fresh = report === original;
    actions.hidden = fresh;
    note.hidden = fresh;
    put(note, !fresh && "Decided anew from the stored scores. The text and its edits are as they were run.");
  };

  const stop = () => {
    clearTimeout(timer);
    running?.abort();
    running = null;
  };

  const reset = () => {
    stop();
    ({ chosen, said } = asItWasRun(start));
    policy.value = start.policy;
    fit();
    put(trouble);
    tell(original);
    onDecided(original);
    policy.focus();
    say(`As it was run: ${tallyText(original.claims)}`);
  };

  const rerun = () => onRerun({ policy: moves() === null ? "" : policy.value, k: null, threshold: null, ...choice() });

  policy.value = start.policy;
  fit();
  tell(original);
  const node = el(
    "div",
    { class: "controls" },
    el("div", { class: "field" }, el("label", { for: "decide-policy" }, "Policy"), policy),
    el("div", { class: "field slider" }, el("span", { class: "pair" }, name, shown), slider, why),
    means,
    note,
    trouble,
    actions,
  );
  return { node, stop };
}

/** Return the numbers that a decision was made with, and what it tells of the policy's own. */
function asItWasRun(decision) {
  const chosen = { k: decision.k ?? undefined };
  if (POLICIES[decision.policy]?.moves !== "threshold") return { chosen, said: {} };
  if (decision.threshold == null) return { chosen, said: { [decision.policy]: null } };
  return { chosen: { ...chosen, [decision.policy]: decision.threshold }, said: {} };
}

/** Say why a policy has no number to move; `told`: the server has decided by it. */
function whyNot(policy, told) {
  if (POLICIES[policy] === undefined) return "The server's own policy: it has no number that can be moved here.";
  if (!told) return "The server has not told its threshold yet.";
  if (policy === "conformal") return "No threshold: it was calibrated on too few claims, so nothing can be flagged.";
  return "The server names no threshold for it.";
}

/** Return the figures of a decision as a list of terms. */
export function decisionFigures(decision) {
  const figures = [
    ["µ", decision.mu],
    ["σ", decision.sigma],
    ["k", POLICIES[decision.policy]?.moves === "threshold" ? null : decision.k],
    ["τ", decision.tau],
    ["µ + kσ", decision.policy === "bounded" && decision.tau_raw !== decision.tau ? decision.tau_raw : null],
    ["floor", decision.floor],
    ["ceiling", decision.ceiling],
    ["α", decision.alpha],
  ];
  return el(
    "dl",
    { class: "figures" },
    figures
      .filter(([, value]) => value !== null)
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, number(value, 3)))),
  );
}
