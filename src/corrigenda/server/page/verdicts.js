// How verdicts and statuses are shown: a mark, a word and a sentence each. Colours and patterns are in result.css.

import { el } from "./dom.js";

/** The verdicts, most pressing first: text that several claims share is underlined by the first of theirs. */
export const VERDICTS = {
  contradicted: { mark: "✕", word: "contradicted", means: "the reference says otherwise, firmly enough" },
  failed: { mark: "!", word: "failed", means: "the check itself broke" },
  unverified: { mark: "?", word: "unverified", means: "neither supported nor contradicted firmly enough" },
  supported: { mark: "✓", word: "supported", means: "the reference entails it, firmly enough" },
  not_checkable: { mark: "–", word: "not checkable", means: "an opinion, a question or a refusal" },
};

const ORDER = Object.keys(VERDICTS);

/** Return how a verdict is shown, also one that this page does not know. */
export function verdictOf(name) {
  return VERDICTS[name] ?? { mark: "·", word: String(name), means: "" };
}

/** Return the most pressing of some verdicts. */
export function worst(names) {
  return [...names].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b))[0];
}

const STATUSES = {
  verified: ["supported", "Verified", "Every claim that can be checked is supported."],
  corrected: ["corrected", "Corrected", "What was contradicted has been repaired or removed."],
  contradicted: ["contradicted", "Contradicted", "A contradicted claim still stands in the answer."],
  unverified: ["unverified", "Unverified", "Nothing is contradicted, but not everything is supported."],
  abstained: ["not_checkable", "Abstained", "The answer is a refusal, or says that it does not know."],
  failed: ["failed", "Failed", "The check itself broke. The answer is shown as it is."],
  passed_through: ["not_checkable", "Passed through", "The answer was not checked."],
};

/** Return {look, title, text} for a report's status; `look` is the class that colours it. */
export function statusOf(name) {
  const [look, title, text] = STATUSES[name] ?? ["not_checkable", String(name), ""];
  return { look, title, text };
}

/** Return the mark and the word of a verdict as one small label. */
export function badge(name, ...more) {
  const { mark, word } = verdictOf(name);
  return el("span", { class: `badge v-${name}` }, el("span", { "aria-hidden": "true" }, mark), ` ${word}`, more);
}

/** Return the counts of the verdicts of some claims, in the order of VERDICTS, without those that are zero. */
export function tally(claims) {
  return ORDER.map((name) => [name, claims.filter((claim) => claim.verdict === name).length]).filter(([, n]) => n > 0);
}

/** Say a tally in words: "1 contradicted, 2 supported". */
export function tallyText(claims) {
  return tally(claims)
    .map(([name, n]) => `${n} ${verdictOf(name).word}`)
    .join(", ");
}
