// The answer as it was checked: each claim underlined by its verdict, with a label that opens its details.

import { el, put, signed, spoken } from "./dom.js";
import { pieces } from "./text.js";
import { verdictOf, worst } from "./verdicts.js";

/**
 * Show `report.answer` in `box`, and the claims that have no place in it in `loose`. Returns {update, select, focus,
 * reveal}: `update(report)` shows other verdicts of the same claims, `select(index)` marks one claim, `focus(index)`
 * moves the keyboard's focus to its label, `reveal(index)` scrolls to its text.
 * `on.choose(index)` is called on a click or when a label gets the focus, `on.hover(index or null)` as the pointer
 * moves, `on.open(index)` on Enter, which asks for the details themselves.
 */
export function showAnswer(box, loose, report, on) {
  const marks = []; // {node, inside}: the underlined pieces
  const tags = []; // the labels, by claim
  const order = []; // claims in the order of their labels
  let chosen = null;

  const makeTag = (index) => {
    const tag = el("button", {
      type: "button",
      class: "tag",
      dir: "ltr",
      tabindex: -1,
      "data-claim": index,
      "aria-controls": "detail",
      onfocus: () => on.choose(index),
      // A click made by a key or a screen reader asks for the details themselves; a pointer is there to look.
      onclick: (event) => (event.detail === 0 ? on.open(index) : on.choose(index)),
    });
    tags[index] = tag;
    order.push(index);
    return tag;
  };

  const parts = [];
  for (const { text, inside, ending } of pieces(
    report.answer,
    report.claims.map((claim) => claim.span),
  )) {
    if (inside.length === 0) {
      parts.push(text);
    } else {
      const node = el("span", { class: "mark", "data-claim": narrowest(report.claims, inside) }, text);
      marks.push({ node, inside });
      parts.push(node);
    }
    parts.push(...ending.map(makeTag));
  }
  put(box, parts);

  const unplaced = report.claims.map((_, index) => index).filter((index) => tags[index] === undefined);
  loose.hidden = unplaced.length === 0;
  put(
    loose,
    unplaced.length > 0 && el("p", { class: "hint" }, "Claims that don't stand in the answer word for word:"),
    unplaced.length > 0 &&
      el(
        "ul",
        {},
        unplaced.map((index) => {
          const node = el("span", { class: "mark", "data-claim": index, dir: "auto" }, report.claims[index].text);
          marks.push({ node, inside: [index] });
          return el("li", {}, node, makeTag(index));
        }),
      ),
  );

  const claimAt = (event) => {
    const holder = event.target.closest?.("[data-claim]");
    return holder ? Number(holder.dataset.claim) : null;
  };
  for (const area of [box, loose]) {
    // Moves, not entries: what appears under a pointer at rest was not pointed at.
    area.onpointermove = (event) => event.pointerType === "mouse" && on.hover(claimAt(event));
    area.onpointerleave = (event) => event.pointerType === "mouse" && on.hover(null);
    area.onclick = (event) => {
      if (event.target.closest(".mark") !== null && getSelection().isCollapsed) on.choose(claimAt(event));
    };
    area.onkeydown = (event) => {
      const place = order.indexOf(claimAt(event));
      const next = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1 };
      Object.assign(next, { Home: 0, End: order.length - 1 });
      if (place < 0 || !(event.key in next) || order[next[event.key]] === undefined) return;
      event.preventDefault();
      tags[order[next[event.key]]].focus();
    };
  }

  const update = (now) => {
    now.claims.forEach((claim, index) => {
      const { mark, word } = verdictOf(claim.verdict);
      const tag = tags[index];
      tag.className = `tag v-${claim.verdict}`;
      const score = claim.signed === null ? "" : `, score ${signed(claim.signed)}`;
      put(
        tag,
        spoken(`Claim ${index + 1} of ${now.claims.length}, ${word}${score}: ${claim.text}`),
        el("span", { "aria-hidden": "true" }, el("b", {}, String(index + 1)), ` ${mark} ${word}`),
      );
    });
    for (const { node, inside } of marks) {
      node.className = `mark v-${worst(inside.map((index) => now.claims[index].verdict))}`;
    }
    select(chosen);
  };

  const select = (index) => {
    chosen = index;
    for (const { node, inside } of marks) node.classList.toggle("chosen", inside.includes(index));
    tags.forEach((tag, number) => {
      tag.classList.toggle("chosen", number === index);
      tag.setAttribute("aria-expanded", String(number === index));
    });
    // One stop for the Tab key, arrows for the rest: with a hundred claims, Tab must still lead on.
    const stop = index ?? order[0];
    tags.forEach((tag, number) => {
      tag.tabIndex = number === stop ? 0 : -1;
    });
  };

  update(report);
  const reveal = (index) =>
    marks.find(({ inside }) => inside.includes(index))?.node.scrollIntoView({ block: "nearest" });
  return { update, select, focus: (index) => tags[index]?.focus(), reveal };
}

/** Return which of the claims covers the least, so that a pointer finds the one that it points at. */
function narrowest(claims, inside) {
  const width = (index) => claims[index].span[1] - claims[index].span[0];
  return [...inside].sort((a, b) => width(a) - width(b))[0];
}
