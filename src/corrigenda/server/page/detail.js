// Everything about one claim: its scores, the window of the reference that decided, and what was done about it.

import { count, el, number, sentence, signed } from "./dom.js";
import { Points, wordChanges } from "./text.js";
import { badge } from "./verdicts.js";

/** Return the details of the claim `index` as a list of nodes; `original` is the report as it came from the run. */
export function claimDetail(report, original, index) {
  const claim = report.claims[index];
  return [
    el("p", { class: "statement", dir: "auto" }, claim.text),
    claim.reason && el("p", { class: "reason" }, sentence(claim.reason)),
    claim.scores && scores(claim),
    window_(report, claim.evidence, "The window that decided"),
    window_(report, claim.counter_evidence, "A window that says the opposite"),
    retrieval(report, index),
    change(report, original, index),
    claim.released && released(claim.released),
  ].filter(Boolean);
}

/** Return the heading of the details: the claim's number and its verdict. */
export function claimHeading(report, index) {
  return [`Claim ${index + 1} of ${report.claims.length} `, badge(report.claims[index].verdict)];
}

function scores(claim) {
  const row = (name, look) => {
    const value = claim.scores[name];
    const bar = el("span", { class: `bar v-${look}`, "aria-hidden": "true" });
    bar.style.setProperty("--part", String(value));
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", {}, bar),
      el("td", { class: "figure" }, number(value, 3)),
    );
  };
  return el(
    "table",
    { class: "scores" },
    el("caption", {}, "Signed score ", el("b", {}, signed(claim.signed, 3))),
    el("tbody", {}, row("entailment", "supported"), row("neutral", "unverified"), row("contradiction", "contradicted")),
  );
}

function window_(report, evidence, title) {
  if (!evidence) return null;
  const reference = report.references[evidence.reference];
  const source = reference ? reference.source : `reference ${evidence.reference + 1}`;
  return el(
    "figure",
    { class: "window" },
    el("figcaption", {}, title, el("span", { class: "source" }, source)),
    el("blockquote", { dir: "auto" }, evidence.text),
    reference && reference.text.trim() !== evidence.text.trim() && whole(reference, evidence),
  );
}

function whole(reference, evidence) {
  const points = new Points(reference.text);
  const [start, end] = evidence.span;
  return el(
    "details",
    {},
    el("summary", {}, "The whole reference"),
    el(
      "p",
      { class: "passage-text", dir: "auto" },
      points.slice(0, start),
      el("mark", {}, points.slice(start, end)),
      points.slice(end, points.length),
      reference.truncated && el("span", { class: "hint" }, " (cut off at its cap of tokens)"),
    ),
  );
}

function retrieval(report, index) {
  const entry = (report.retrieval ?? []).find((found) => found.claim === index);
  if (!entry) return null;
  const score = (value) => (value === null ? "" : ` (${signed(value)})`);
  return el(
    "div",
    { class: "lookup" },
    el("h4", {}, "Looked up"),
    el(
      "p",
      {},
      badge(entry.before),
      `${score(entry.before_signed)} → `,
      badge(entry.after),
      `${score(entry.after_signed)}. `,
      entry.decides ? "A passage decides it." : sentence(entry.reason ?? "no passage decides it"),
    ),
    entry.passages.length > 0 &&
      el(
        "ol",
        {},
        entry.passages.map((passage) => el("li", { dir: "auto" }, passage.title ?? passage.id)),
      ),
  );
}

function change(report, original, index) {
  const edits = original.edits.filter((edit) => edit.claims.includes(index));
  const [now, then] = [report.claims[index].verdict, original.claims[index].verdict];
  const notes = [];
  if (now !== then && now === "contradicted") {
    notes.push(
      el("p", { class: "hint" }, "Contradicted only as decided here: nothing was rewritten. Run it again for that."),
    );
  } else if (now !== then && edits.length > 0) {
    notes.push(el("p", { class: "hint" }, "The text was changed when the claim was decided as contradicted."));
  }
  return edits.length + notes.length === 0 ? null : el("div", { class: "edits" }, edits.map(one), notes);
}

/** How a sentence left before the whole answer was decided. */
function released(early) {
  const threshold = early.tau === null ? "" : `, with τ at ${number(early.tau)}`;
  return el(
    "p",
    { class: "hint early" },
    `Released after ${number(early.at_s)} s as `,
    badge(early.verdict),
    `${threshold}.`,
  );
}

const KINDS = { rewrite: "Rewrite", hedge: "Hedge", remove: "Removal" };

function one(edit) {
  const others = edit.claims.length > 1 ? `, for ${count(edit.claims.length, "claim")}` : "";
  return el(
    "section",
    { class: edit.accepted ? "edit" : "edit refused" },
    el("h4", {}, `${KINDS[edit.kind] ?? edit.kind}, ${edit.accepted ? "accepted" : "not accepted"}${others}`),
    edit.after !== null && el("p", { class: "changes", dir: "auto" }, marked(wordChanges(edit.before, edit.after))),
    el("p", { class: "reason" }, sentence(edit.reason)),
  );
}

/** Return changes as text, removed and added parts marked; screen readers are told in words. */
export function marked(changes) {
  const names = { removed: ["del", "removed:", "end"], added: ["ins", "added:", "end"] };
  return changes.map(({ kind, text }) => {
    if (kind === "same") return text;
    const [name, opens, closes] = names[kind];
    const aside = (words) => el("span", { class: "spoken" }, ` ${words} `);
    return el(name, {}, aside(opens), text, aside(closes));
  });
}
