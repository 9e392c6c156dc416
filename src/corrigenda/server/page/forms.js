// The two forms, their tabs and their options: what was typed, as the body of a request, or what is wrong with it.

import { byId, el, put } from "./dom.js";

const TABS = ["ask", "check"];
const EXAMPLE = {
  question: "How tall is the Eiffel Tower, and where does it stand?",
  answer: "The Eiffel Tower stands in Paris. The tower is 230 metres tall. It was built for the 1889 World's Fair.",
  passage:
    "The Eiffel Tower is 330 metres tall and stands in Paris, beside the Seine. It was built for the 1889 World's " +
    "Fair by the company of Gustave Eiffel.",
};

let active = "ask";
let passages = 0;

/** Return which tab is open, `ask` or `check`. */
export function activeTab() {
  return active;
}

/** Make the tabs and the passages work. `onSubmit` is called for Ctrl+Enter, `onTab` when another tab opens. */
export function setUpForms(onSubmit, onTab) {
  for (const name of TABS) {
    byId(`tab-${name}`).addEventListener("click", () => open(name, onTab));
    byId(`tab-${name}`).addEventListener("keydown", (event) => onArrow(event, name, onTab));
    const panel = byId(`panel-${name}`);
    panel.addEventListener("submit", (event) => event.preventDefault());
    setUpPassages(panel.querySelector(".passages"));
  }
  byId("option-policy").addEventListener("change", fitNumbers);
  byId("main").addEventListener("keydown", (event) => {
    const here = event.target.closest(".entry") !== null;
    if (here && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onSubmit();
    }
  });
  const follow = () => TABS.includes(location.hash.slice(1)) && open(location.hash.slice(1), onTab);
  addEventListener("hashchange", follow);
  follow();
  fitNumbers(); // a browser may bring back what was chosen before the page was loaded again
}

function open(name, onTab) {
  active = name;
  for (const other of TABS) {
    const chosen = other === name;
    byId(`tab-${other}`).setAttribute("aria-selected", String(chosen));
    byId(`tab-${other}`).tabIndex = chosen ? 0 : -1;
    byId(`panel-${other}`).hidden = !chosen;
  }
  byId("decision-field").hidden = name !== "ask";
  history.replaceState(null, "", `#${name}`);
  onTab(name);
}

function onArrow(event, name, onTab) {
  const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -TABS.indexOf(name), End: TABS.length - 1 - TABS.indexOf(name) };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const next = TABS[(TABS.indexOf(name) + moves[event.key] + TABS.length) % TABS.length];
  open(next, onTab);
  byId(`tab-${next}`).focus();
}

function setUpPassages(group) {
  const list = el("div", { class: "passage-list" });
  const more = el(
    "button",
    { type: "button", class: "plain", onclick: () => addPassage(group).focus() },
    "Add a passage",
  );
  group.append(list, more);
  if (group.dataset.optional === undefined) addPassage(group);
}

function addPassage(group, text = "") {
  passages += 1;
  const box = el("textarea", { rows: 3, dir: "auto", autocomplete: "off", id: `passage-${passages}` });
  box.value = text;
  const row = el("div", { class: "passage" }, box);
  const remove = () => {
    const [before, add] = [row.previousElementSibling, group.querySelector(":scope > button")];
    row.remove();
    nameThem(group);
    (before?.querySelector("textarea") ?? add).focus();
  };
  row.append(el("button", { type: "button", class: "plain remove", onclick: remove }, "Remove"));
  group.querySelector(".passage-list").append(row);
  nameThem(group);
  return box;
}

function nameThem(group) {
  group.querySelectorAll(".passage").forEach((row, index) => {
    row.querySelector("textarea").setAttribute("aria-label", `Passage ${index + 1}`);
    row.querySelector("button").setAttribute("aria-label", `Remove passage ${index + 1}`);
  });
}

/** Fill the open form with an example. */
export function fillExample() {
  if (active === "ask") {
    byId("ask-question").value = EXAMPLE.question;
  } else {
    byId("check-answer").value = EXAMPLE.answer;
    byId("check-question").value = "";
    const group = byId("panel-check").querySelector(".passages");
    put(group.querySelector(".passage-list"));
    addPassage(group, EXAMPLE.passage);
  }
  clearMistakes();
}

/** Offer the server's models; one alone needs no choice. */
export function offerModels(ids) {
  put(
    byId("option-model"),
    ids.map((id) => el("option", { value: id }, id)),
  );
  byId("model-field").hidden = ids.length < 2;
}

/** Choose a policy and its number for the next run; "" and null leave them to the server. */
export function choosePolicy({ policy, k, threshold }) {
  byId("option-policy").value = policy;
  byId("option-k").value = k === null ? "" : String(k);
  byId("option-threshold").value = threshold === null ? "" : String(threshold);
  fitNumbers();
}

/** Show the number that the chosen policy has. */
function fitNumbers() {
  const fixed = ["fixed", "conformal"].includes(byId("option-policy").value);
  byId("k-field").hidden = fixed;
  byId("threshold-field").hidden = !fixed;
}

/** Return the body of the open form's request, or null after its mistakes were shown and the first one focused. */
export function readForm() {
  clearMistakes();
  const contexts = Array.from(byId(`panel-${active}`).querySelectorAll(".passage textarea"), (box) => box.value).filter(
    (text) => text.trim() !== "",
  );
  const options = readOptions();
  const wrong = wrongNumbers();
  if (active === "ask") {
    const question = byId("ask-question").value;
    if (question.trim() === "") wrong.unshift(["ask-question", "Type a question."]);
    if (!show(wrong)) return null;
    const settings = { ...options, decision: byId("option-decision").value };
    if (contexts.length > 0) settings.contexts = contexts;
    const model = byId("model-field").hidden ? "" : byId("option-model").value;
    return {
      ...(model === "" ? {} : { model }),
      messages: [{ role: "user", content: question }],
      corrigenda: settings,
    };
  }
  const [answer, question] = [byId("check-answer").value, byId("check-question").value];
  if (question.trim() === "" && contexts.length === 0) {
    wrong.unshift(["check-question", "Give a passage to check against, or the question that was asked."]);
  }
  if (answer.trim() === "") wrong.unshift(["check-answer", "Paste an answer."]);
  if (!show(wrong)) return null;
  return {
    answer,
    ...(question.trim() === "" ? {} : { question }),
    ...(contexts.length > 0 ? { contexts } : {}),
    ...options,
  };
}

const NUMBERS = {
  k: "k is a number from 0 to 1000, or left empty.",
  threshold: "A threshold is a number from 0 to 1, or left empty.",
};

/** Return the numbers among the options that count now, each with its box. */
function numbers() {
  return Object.keys(NUMBERS)
    .filter((name) => !byId(`${name}-field`).hidden)
    .map((name) => [name, byId(`option-${name}`)]);
}

function wrongNumbers() {
  return numbers()
    .filter(([, box]) => ["badInput", "rangeUnderflow", "rangeOverflow"].some((fault) => box.validity[fault]))
    .map(([name]) => [`option-${name}`, NUMBERS[name]]);
}

function readOptions() {
  const options = { mode: byId("option-mode").value };
  const [policy, language] = [byId("option-policy").value, byId("option-language").value];
  if (policy !== "") options.policy = policy;
  if (language !== "") options.language = language;
  for (const [name, box] of numbers()) if (box.value !== "") options[name] = Number(box.value);
  return options;
}

/** Show mistakes beside their fields; return whether there were none. */
function show(mistakes) {
  for (const [id, text] of mistakes) {
    byId(id).setAttribute("aria-invalid", "true");
    put(byId(`${id}-error`), text);
  }
  if (mistakes.length > 0) {
    if (mistakes.some(([id]) => id.startsWith("option-"))) byId("options").open = true;
    byId(mistakes[0][0]).focus();
  }
  return mistakes.length === 0;
}

/** Show what the server said about a field that it named, when the open form has it; return whether it has. */
export function showRefused(param, text) {
  const name = { messages: "question", answer: "answer", question: "question" }[param?.split(/[.[]/)[0]];
  const id = `${active}-${name}`;
  if (name === undefined || document.getElementById(id) === null) return false;
  return !show([[id, text]]);
}

/** Take away what `readForm` and `showRefused` have shown. */
export function clearMistakes() {
  document.querySelectorAll(".entry [aria-invalid]").forEach((box) => box.removeAttribute("aria-invalid"));
  document.querySelectorAll(".entry .mistake").forEach((line) => put(line));
}
