// One report on the page: its status, the answer with its claims, the changes, the decision and the timeline.

import { showAnswer } from "./answer.js";
import { decisionControls, decisionFigures } from "./controls.js";
import { copy } from "./copy.js";
import { claimDetail, claimHeading, marked } from "./detail.js";
import { byId, count, el, put, sentence, signed } from "./dom.js";
import { stripPlot } from "./plot.js";
import { answerChanges } from "./text.js";
import { timeline } from "./timeline.js";
import { VERDICTS, badge, statusOf, tally, tallyText, worst } from "./verdicts.js";

const NARROW = matchMedia("(max-width: 899px)");
let stopControls = () => {};

/** Show `report` in the result section. `onRerun({policy, k, threshold})` is called to have it run again. */
export function showReport(report, onRerun) {
  clearResult();
  const view = new View(report, onRerun);
  const section = byId("result");
  put(section, view.build());
  section.hidden = false;
  view.show(report);
  return view;
}

/** Take the shown report away. */
export function clearResult() {
  stopControls();
  stopControls = () => {};
  put(byId("result"));
  byId("result").hidden = true;
  document.body.classList.remove("sheet");
}

/** Show an answer that was passed through unchecked, with the server's reason. */
export function showUnchecked(answer, note) {
  clearResult();
  const status = statusOf(note.status);
  put(
    byId("result"),
    el(
      "div",
      { class: `card head v-${status.look}` },
      el("h2", { id: "result-title" }, status.title),
      el("p", {}, status.text, " ", note.reason ?? ""),
    ),
    card("The answer", el("div", { class: "answer", dir: "auto" }, answer)),
  );
  byId("result").hidden = false;
}

function card(title, ...content) {
  return el("section", { class: "card", "aria-label": title }, el("h3", {}, title), content);
}

class View {
  constructor(report, onRerun) {
    this.original = report;
    this.report = report;
    this.onRerun = onRerun;
    this.chosen = NARROW.matches ? null : this.firstOfInterest();
    this.hovered = null;
  }

  /** The claim whose details are shown at first: a contradicted one, if there is one. */
  firstOfInterest() {
    const verdicts = this.report.claims.map((claim) => claim.verdict);
    return verdicts.length === 0 ? null : verdicts.indexOf(worst(verdicts));
  }

  build() {
    const report = this.original;
    this.head = el("div", { class: "card head" });
    this.box = el("div", {
      class: "answer checked",
      role: "group",
      "aria-label": "The answer with its claims; arrow keys move between them",
    });
    this.loose = el("div", { class: "loose", hidden: true });
    this.legend = el("ul", { class: "legend", "aria-label": "Verdicts" });
    this.detail = el("section", {
      class: "card detail",
      id: "detail",
      "aria-labelledby": "detail-title",
      tabindex: -1,
    });
    this.detail.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.decision = el("div", { class: "figures-box" });
    this.table = el("div", {});
    this.answer = showAnswer(this.box, this.loose, report, {
      choose: (index) => this.choose(index),
      hover: (index) => this.hover(index),
      open: (index) => this.open(index),
    });
    const middle = el(
      "div",
      { class: "columns" },
      el(
        "div",
        { class: "column" },
        card("Answer, as it was checked", this.box, this.loose, this.legend),
        this.changes(),
      ),
      report.claims.length > 0 && el("div", { class: "column side" }, this.detail),
    );
    return [this.head, middle, this.decisionCard(), this.timelineCard(), this.moreCard()].filter(Boolean);
  }

  changes() {
    const report = this.original;
    if (report.final_answer === report.answer) return null;
    const mixed = el("div", { class: "answer changes", dir: "auto" }, marked(answerChanges(report)));
    return card("Before and after", mixed, this.changeButtons(mixed));
  }

  changeButtons(mixed) {
    const report = this.original;
    const views = {
      Both: () => marked(answerChanges(report)),
      Before: () => report.answer,
      After: () => report.final_answer,
    };
    const buttons = Object.entries(views).map(([name, content]) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(name === "Both"),
          onclick: (event) => {
            buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === event.currentTarget)));
            put(mixed, content());
          },
        },
        name,
      ),
    );
    return el("div", { class: "switch", role: "group", "aria-label": "What to show" }, buttons);
  }

  decisionCard() {
    const report = this.original;
    if (report.decision === null) return null;
    this.plot = stripPlot({ choose: (index) => this.choose(index) });
    const controls = decisionControls(report, (decided) => this.show(decided), this.onRerun);
    stopControls = controls.stop;
    return card(
      "Decision",
      el("div", { class: "decision" }, el("div", {}, this.plot.node, this.decision), controls.node),
    );
  }

  timelineCard() {
    const table = timeline(this.original);
    return table && card("Stages", table);
  }

  moreCard() {
    const report = this.original;
    const models = Object.entries(report.models).filter(([, name]) => name !== null);
    return el(
      "div",
      { class: "card more" },
      report.claims.length > 0 && el("details", {}, el("summary", {}, "All claims"), this.table),
      report.references.length > 0 &&
        el(
          "details",
          {},
          el("summary", {}, `All references (${report.references.length})`),
          report.references.map(reference),
        ),
      models.length > 0 && el("p", { class: "hint" }, models.map(([role, name]) => `${role}: ${name}`).join(" · ")),
    );
  }

  /** Show the verdicts of `report`, which has the same claims as the original. */
  show(report) {
    this.report = report;
    this.fillHead();
    this.answer.update(report);
    this.fillLegend();
    if (report.decision !== null) put(this.decision, decisionFigures(report.decision));
    this.fillTable();
    this.refresh();
  }

  fillHead() {
    const report = this.report;
    const status = statusOf(report.status);
    this.head.className = `card head v-${status.look}`;
    const warnings = report.warnings.map((text) => el("li", { dir: "auto" }, text));
    put(
      this.head,
      el(
        "h2",
        { id: "result-title" },
        status.title,
        report !== this.original && el("span", { class: "aside" }, " as decided anew"),
      ),
      el(
        "p",
        { class: "gist" },
        report.reason ? sentence(report.reason) : status.text,
        report.claims.length > 0 && ` ${count(report.claims.length, "claim")}: ${tallyText(report.claims)}.`,
      ),
      warnings.length > 0 && el("ul", { class: "warnings", "aria-label": "Warnings" }, warnings),
      el(
        "div",
        { class: "actions" },
        el("button", { type: "button", onclick: () => copy(report.final_answer, "The answer") }, "Copy answer"),
        el(
          "button",
          { type: "button", onclick: () => copy(JSON.stringify(report, null, 2), "The report") },
          "Copy as JSON",
        ),
      ),
    );
  }

  fillLegend() {
    put(
      this.legend,
      tally(this.report.claims).map(([name, n]) =>
        el(
          "li",
          { title: VERDICTS[name]?.means ?? "" },
          el("span", { class: `mark sample v-${name}`, "aria-hidden": "true" }, "abc"),
          ` ${n} `,
          VERDICTS[name].word,
        ),
      ),
    );
    if (this.report.claims.length === 0) put(this.legend, el("li", {}, "No claims were found."));
  }

  fillTable() {
    const row = (claim, index) =>
      el(
        "tr",
        {},
        el("td", { class: "figure" }, String(index + 1)),
        el("td", {}, badge(claim.verdict)),
        el("td", { class: "figure" }, claim.signed === null ? "–" : signed(claim.signed, 3)),
        el("td", { dir: "auto" }, claim.text),
      );
    put(
      this.table,
      el(
        "table",
        { class: "claims" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["Claim", "Verdict", "Score", "Text"].map((name) => el("th", { scope: "col" }, name)),
          ),
        ),
        el("tbody", {}, this.report.claims.map(row)),
      ),
    );
  }

  choose(index) {
    this.chosen = index;
    this.hovered = null;
    this.refresh();
    if (NARROW.matches && index !== null) this.answer.reveal(index);
  }

  hover(index) {
    // Where the details cover part of the page, they come up when they are asked for, not as a pointer passes.
    if (this.hovered === index || NARROW.matches) return;
    this.hovered = index;
    this.refresh();
  }

  /** Choose a claim and go to its details; Escape leads back to its label. */
  open(index) {
    this.choose(index);
    this.detail.focus();
  }

  close() {
    const index = this.chosen;
    if (NARROW.matches) this.choose(null);
    this.answer.focus(index);
    if (NARROW.matches) this.choose(null);
  }

  refresh() {
    const index = this.hovered ?? this.chosen;
    this.answer.select(index);
    this.plot?.draw(this.report, index);
    this.detail.hidden = index === null;
    document.body.classList.toggle("sheet", index !== null);
    if (index === null) return;
    put(
      this.detail,
      el(
        "div",
        { class: "detail-head" },
        el("h3", { id: "detail-title" }, claimHeading(this.report, index)),
        el(
          "button",
          { type: "button", class: "plain close", "aria-label": "Close the details", onclick: () => this.close() },
          "Close",
        ),
      ),
      claimDetail(this.report, this.original, index),
    );
  }
}

function reference(passage, index) {
  return el(
    "figure",
    { class: "window" },
    el("figcaption", {}, `Reference ${index + 1}`, el("span", { class: "source" }, passage.source)),
    el(
      "blockquote",
      { dir: "auto" },
      passage.text,
      passage.truncated && el("span", { class: "hint" }, " (cut off at its cap of tokens)"),
    ),
  );
}
