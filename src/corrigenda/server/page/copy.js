// Copying text, also where the browser keeps the clipboard from pages that came over plain HTTP.

import { el, say } from "./dom.js";

/** Copy `text` and say so; where that is not allowed, show it selected. `what` begins the sentence: "The report". */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} was copied.`);
    flash(`${what} was copied.`);
  } catch {
    byHand(text);
  }
}

function flash(text) {
  const note = el("p", { class: "toast", "aria-hidden": "true" }, text);
  document.body.append(note);
  setTimeout(() => note.remove(), 2000);
}

function byHand(text) {
  const box = el("textarea", { readonly: true, rows: 14, spellcheck: "false", "aria-label": "The text to copy" });
  box.value = text;
  const close = el("button", { type: "button", class: "main" }, "Close");
  const dialog = el(
    "dialog",
    { "aria-labelledby": "copy-title" },
    el("h2", { id: "copy-title" }, "Copy it from here"),
    el(
      "p",
      { class: "hint" },
      "The browser gives its clipboard only to pages that came over HTTPS or from this machine.",
    ),
    box,
    el("div", { class: "actions" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  box.focus();
  box.select();
}
