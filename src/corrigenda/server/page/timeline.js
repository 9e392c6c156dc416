// When each stage ran and what it cost. Stages that ran at the same time are seen to overlap.

import { el } from "./dom.js";

/** Return the timeline of a report as a table with bars, or null when the report has no timings. */
export function timeline(report) {
  if (report.timings.length === 0) return null;
  const total = Math.max(...report.timings.map((timing) => timing.end_s), 1e-9);
  const stages = [...new Set(report.timings.map((timing) => timing.stage))];
  return el(
    "table",
    { class: "timeline" },
    el("caption", {}, `${seconds(total)} in all`),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["Stage", "When", "Time", "Cost"].map((name) => el("th", { scope: "col" }, name)),
      ),
    ),
    el(
      "tbody",
      {},
      stages.map((stage) => row(report, stage, total)),
    ),
  );
}

function row(report, stage, total) {
  const runs = report.timings.filter((timing) => timing.stage === stage);
  const busy = runs.reduce((sum, run) => sum + run.end_s - run.start_s, 0);
  const when = runs.map((run) => `${seconds(run.start_s)} to ${seconds(run.end_s)}`).join(", ");
  const bars = runs.map((run) => {
    const bar = el("span", { class: "run" });
    bar.style.setProperty("--from", String(run.start_s / total));
    bar.style.setProperty("--part", String((run.end_s - run.start_s) / total));
    return bar;
  });
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, stage),
    el(
      "td",
      { class: "track", title: when },
      el("span", { class: "spoken" }, when),
      el("span", { class: "runs", "aria-hidden": "true" }, bars),
    ),
    el("td", { class: "figure" }, seconds(busy)),
    el("td", { class: "cost" }, cost(report.usage[stage])),
  );
}

function cost(usage) {
  if (!usage) return "";
  const calls = `${usage.calls} call${usage.calls === 1 ? "" : "s"}`;
  if (usage.prompt_tokens === null || usage.completion_tokens === null) return calls;
  return `${calls}, ${usage.prompt_tokens} + ${usage.completion_tokens} tokens`;
}

function seconds(value) {
  if (value > 0 && value < 0.0005) return "< 1 ms";
  return value < 0.995 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`;
}
