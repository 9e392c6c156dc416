// Deciding anew: a choice of policy and a slider, sent to the server with the stored scores. No model runs.

import { decide } from "./api.js";
import { el, number, put, say } from "./dom.js";
import { problemOf } from "./problems.js";
import { tallyText } from "./verdicts.js";

const WAIT_MS = 150; // after the last movement of the slider, before the server is asked

const MOST_K = 3; // the slider's end, unless the report has more
const ADAPTIVE = new Set(["bounded", "paper"]); // the policies whose threshold follows the scores, by k
const POLICIES = {
  bounded: "τ = µ + kσ, kept between a floor and a ceiling, so that one false claim among true ones is found.",
  fixed: "The same threshold for every answer, whatever its other scores.",
  paper: "τ = µ + kσ exactly as published. It can be out of reach: a few false claims among many true ones pass.",
  conformal: "A threshold calibrated so that true claims are seldom flagged. It holds only once it was calibrated.",
};
/**
 * Return {node, stop} for the controls over `original`, the report as it came from the run. `onDecided(report)` gets
 * each report that the server decided anew, and the original one on a reset. `onRerun(policy, k)` runs all again.
 */
export function decisionControls(original, onDecided, onRerun) {
  const start = original.decision;
  let [timer, running] = [null, null];

  const policy = el("select", { id: "decide-policy", onchange: () => changed(0) });
  for (const name of Object.keys(POLICIES)) policy.append(el("option", { value: name }, name));
  const most = Math.max(MOST_K, Math.ceil(start.k));
  const slider = el("input", {
    id: "decide-k",
    type: "range",
    min: 0,
    max: most,
    step: 0.01,
    oninput: () => changed(WAIT_MS),
  });
  const shown = el("span", { class: "value", "aria-hidden": "true" });
  const means = el("p", { class: "hint" });
  const note = el("p", { class: "hint note" });
  const trouble = el("p", { class: "mistake", role: "alert" });
  const back = el("button", { type: "button", class: "plain", onclick: () => reset() }, "As it was run");
  const again = el(
    "button",
    { type: "button", class: "plain", onclick: () => onRerun(policy.value, ADAPTIVE.has(policy.value) ? k() : null) },
    "Run again with this",
  );
  const actions = el("div", { class: "actions" }, back, again);
  const k = () => Number(slider.value);

  /** Show the slider's value, and whether the policy makes use of it. */
  const fit = () => {
    slider.disabled = !ADAPTIVE.has(policy.value);
    put(shown, number(Number(slider.value)));
    put(means, POLICIES[policy.value]);
  };

  const changed = (wait) => {
    fit();
    clearTimeout(timer);
    timer = setTimeout(send, wait);
  };

  const send = async () => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    try {
      const report = await decide({ report: original, policy: policy.value, k: k() }, mine.signal);
      if (running !== mine) return;
      put(trouble);
      tell(report);
      onDecided(report);
      say(`${policy.value}${slider.disabled ? "" : `, k ${number(k())}`}: ${tallyText(report.claims)}`);
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

  const reset = () => {
    clearTimeout(timer);
    running?.abort();
    running = null;
    policy.value = start.policy;
    slider.value = String(start.k);
    fit();
    put(trouble);
    tell(original);
    onDecided(original);
    policy.focus();
    say(`As it was run: ${tallyText(original.claims)}`);
  };

  policy.value = start.policy;
  slider.value = String(start.k);
  fit();
  tell(original);
  const node = el(
    "div",
    { class: "controls" },
    el("div", { class: "field" }, el("label", { for: "decide-policy" }, "Policy"), policy),
    el(
      "div",
      { class: "field slider" },
      el("span", { class: "pair" }, el("label", { for: "decide-k" }, "k"), shown),
      slider,
    ),
    means,
    note,
    trouble,
    actions,
  );
  const stop = () => {
    clearTimeout(timer);
    running?.abort();
    running = null;
  };
  return { node, stop };
}

/** Return the figures of a decision as a list of terms. */
export function decisionFigures(decision) {
  const figures = [
    ["µ", decision.mu],
    ["σ", decision.sigma],
    ["k", decision.policy === "fixed" || decision.policy === "conformal" ? null : decision.k],
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
