// Text arithmetic, without the page: code points, cutting an answer at the ends of its claims, differences of words.
//
// A report counts Unicode code points, JavaScript counts UTF-16 units: an emoji is one of the former and two of the
// latter. Everything that cuts a text by a report's span goes through `Points`.

/** A text that can be cut by code points. A lone surrogate counts as one, as it does for the server. */
export class Points {
  constructor(text) {
    this.text = text;
    this.at = [];
    let unit = 0;
    for (const character of text) {
      this.at.push(unit);
      unit += character.length;
    }
    this.at.push(unit);
  }

  /** How many code points the text has. */
  get length() {
    return this.at.length - 1;
  }

  /** Return the part from code point `start` up to `end`; ends beyond the text mean its end. */
  slice(start, end) {
    const last = this.length;
    return this.text.slice(this.at[Math.min(Math.max(start, 0), last)], this.at[Math.min(Math.max(end, 0), last)]);
  }
}

/**
 * Cut `text` wherever a span begins or ends. Returns pieces in order, whose texts add up to `text`: each has the
 * indices of the spans that cover it (`inside`) and of those that end with it (`ending`). A null span covers nothing.
 */
export function pieces(text, spans) {
  const points = new Points(text);
  const clean = spans.map((span) => validSpan(span, points.length));
  const cuts = new Set([0, points.length]);
  for (const span of clean) if (span !== null) span.forEach((end) => cuts.add(end));
  const ends = [...cuts].sort((a, b) => a - b);
  const found = [];
  for (let i = 0; i + 1 < ends.length; i += 1) {
    const [start, end] = [ends[i], ends[i + 1]];
    const inside = [];
    const ending = [];
    clean.forEach((span, index) => {
      if (span === null || span[0] > start || span[1] < end) return;
      inside.push(index);
      if (span[1] === end) ending.push(index);
    });
    found.push({ text: points.slice(start, end), inside, ending });
  }
  return found;
}

/** Return `span` when it lies inside a text of `length` code points and covers something, else null. */
export function validSpan(span, length) {
  if (!Array.isArray(span)) return null;
  const [start, end] = span;
  return start >= 0 && start < end && end <= length ? [start, end] : null;
}

const segmenter = typeof Intl.Segmenter === "function" ? new Intl.Segmenter(undefined, { granularity: "word" }) : null;

/** Return the words, white space and marks of a text, in order; they add up to it. No character is split. */
export function words(text) {
  if (segmenter !== null) return Array.from(segmenter.segment(text), (piece) => piece.segment);
  return text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]+/gu) ?? [];
}

const MOST_CELLS = 4_000_000; // about 2,000 words against 2,000: beyond it, the whole is shown as replaced

/**
 * Return how `before` becomes `after`, word by word: a list of {kind, text} with kind same, removed or added. The
 * texts that are not `added` make `before`, those that are not `removed` make `after`.
 */
export function wordChanges(before, after) {
  const [old, fresh] = [words(before), words(after)];
  let head = 0;
  while (head < Math.min(old.length, fresh.length) && old[head] === fresh[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(old.length, fresh.length) - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  const changes = [];
  const add = (kind, text) => {
    if (changes.at(-1)?.kind === kind) changes.at(-1).text += text;
    else if (text !== "") changes.push({ kind, text });
  };
  add("same", old.slice(0, head).join(""));
  middle(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail), add);
  add("same", old.slice(old.length - tail).join(""));
  return changes;
}

/** Add the changes between two lists of words that differ at both ends, by their longest common subsequence. */
function middle(old, fresh, add) {
  if (old.length === 0 || fresh.length === 0 || old.length * fresh.length > MOST_CELLS) {
    add("removed", old.join(""));
    add("added", fresh.join(""));
    return;
  }
  const width = fresh.length + 1;
  const longest = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] =
        old[i] === fresh[j]
          ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  let [i, j] = [0, 0];
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      add("same", old[i]);
      i += 1;
      j += 1;
    } else if (j === fresh.length || (i < old.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      add("removed", old[i]);
      i += 1;
    } else {
      add("added", fresh[j]);
      j += 1;
    }
  }
}

/**
 * Return how a report's answer became its final answer. The accepted edits say where: only what they replace is
 * compared word by word. Where they don't add up to the final answer, the two are compared as wholes.
 */
export function answerChanges(report) {
  const points = new Points(report.answer);
  const edits = report.edits
    .filter((edit) => edit.accepted && edit.after !== null)
    .sort((a, b) => a.span[0] - b.span[0]);
  const changes = [];
  let [done, result] = [0, ""];
  for (const edit of edits) {
    const [start, end] = edit.span;
    const kept = points.slice(done, start);
    if (kept !== "") changes.push({ kind: "same", text: kept });
    changes.push(...wordChanges(points.slice(start, end), edit.after));
    result += kept + edit.after;
    done = end;
  }
  const rest = points.slice(done, points.length);
  if (rest !== "") changes.push({ kind: "same", text: rest });
  return result + rest === report.final_answer ? changes : wordChanges(report.answer, report.final_answer);
}
